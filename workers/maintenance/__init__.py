"""The maintenance worker: validates, sweeps and finalises; every service is one `run_once()`."""
