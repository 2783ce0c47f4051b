"""Alembic migrations: frozen history, only ever extended."""
