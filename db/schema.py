"""Which schema this code is written for, and whether a database has it."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

REVISION = "0003"  # the newest migration; a test holds them equal


async def has_schema(engine: AsyncEngine) -> bool:
    """Whether the database is at this code's revision; False also when it is empty."""
    async with engine.connect() as connection:
        # Asked first, because naming a table that is not there is an error.
        there = await connection.execute(text("SELECT to_regclass('alembic_version') IS NOT NULL"))
        if not there.scalar_one():
            return False
        found = await connection.execute(text("SELECT version_num FROM alembic_version"))
        return found.scalars().all() == [REVISION]
