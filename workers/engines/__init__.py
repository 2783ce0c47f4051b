"""Engines: what turns a request into an answer, behind one port (see port.py)."""
