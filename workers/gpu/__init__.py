"""A GPU worker: a Celery worker whose boot step owns an engine and the claim loop of its lanes."""
