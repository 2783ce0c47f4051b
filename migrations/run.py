"""The three things one does with migrations, as functions on a database URL."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, pool

from db.settings import with_driver


def _config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["database_url"] = with_driver(url)
    return config


def upgrade(url: str) -> None:
    """Bring the schema to the newest revision; safe to run from many places at once."""
    command.upgrade(_config(url), "head")


def downgrade(url: str) -> None:
    """Undo the newest revision."""
    command.downgrade(_config(url), "-1")


def head() -> str | None:
    """The newest revision that this code knows."""
    return ScriptDirectory(str(Path(__file__).parent)).get_current_head()


def current(url: str) -> str | None:
    """The revision that the database is at, or None when it is empty."""
    engine = create_engine(with_driver(url), poolclass=pool.NullPool)
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()
