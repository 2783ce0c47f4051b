"""The one MetaData, and the column kinds that every table shares."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Column, DateTime, MetaData, Uuid, text

metadata = MetaData()

TIMESTAMP = DateTime(timezone=True)


def made_id() -> Column[UUID]:
    """A primary key that the database makes (uuidv7: sorts by creation)."""
    return Column("id", Uuid, primary_key=True, server_default=text("uuidv7()"))


def made_at(name: str = "created_at") -> Column[Any]:
    """A time that the database's clock sets."""
    return Column(name, TIMESTAMP, nullable=False, server_default=text("clock_timestamp()"))
