"""Benches: one module for each number in DESIGN section 7, run as `python -m bench NAME`."""
