"""The hot statements, each in a file of its own that can be pasted into psql and explained."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from sqlalchemy import TextClause, text


@cache
def statement(name: str) -> TextClause:
    """The statement in `db/sql/{name}.sql`; its comment says what it does and what it returns."""
    return text(files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8"))
