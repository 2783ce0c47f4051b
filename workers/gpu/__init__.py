"""A GPU worker: a Celery worker whose boot step owns an engine and one claim loop per lane."""
