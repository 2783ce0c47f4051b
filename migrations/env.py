"""How Alembic connects: one advisory lock over all upgraders, short lock waits, owner's rights.

A migration that cannot get its lock within seconds fails and is run again; it never queues in
front of the application's own statements.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine, pool, text

import db.tables

ADVISORY_LOCK = 0x6661_6972  # "fair": any number that nobody else uses


def migrate(connection: Connection) -> None:
    connection.execute(text("SET lock_timeout = '5s'"))
    connection.execute(text("SET statement_timeout = '10min'"))
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": ADVISORY_LOCK})
    connection.commit()
    try:
        context.configure(
            connection=connection, target_metadata=db.tables.metadata, transaction_per_migration=True
        )
        with context.begin_transaction():
            context.run_migrations()
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": ADVISORY_LOCK})
        connection.commit()


engine = create_engine(context.config.attributes["database_url"], poolclass=pool.NullPool)
with engine.connect() as connection:
    migrate(connection)
