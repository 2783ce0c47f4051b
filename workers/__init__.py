"""Processes that do the work: GPU workers, which own an engine, and the maintenance worker."""
