"""Connections: one pool a process and role, with that role's limits, and tenant transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine


class Role(Enum):
    """Database role and the longest statement (milliseconds) that it may run."""

    API = ("fairlane_api", 10_000)
    ENGINE = ("fairlane_engine", 120_000)

    def __init__(self, role: str, statement_timeout_ms: int) -> None:
        self.role = role
        self.statement_timeout_ms = statement_timeout_ms


def connect(database_url: str, role: Role, *, connections: int, name: str) -> AsyncEngine:
    """A pool of at most that many connections, each bound to the role.

    `name` is shown in pg_stat_activity. A transaction that idles for 30 s is ended by the
    server: none of ours waits for anything but the database.
    """
    options = " ".join(
        f"-c {setting}"
        for setting in (
            f"role={role.role}",
            f"statement_timeout={role.statement_timeout_ms}",
            "lock_timeout=10000",
            "idle_in_transaction_session_timeout=30000",
            "timezone=UTC",
        )
    )
    return create_async_engine(
        database_url,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=15,
        # A request must not meet a connection that a restart cut; the workers' loops simply try again.
        pool_pre_ping=role is Role.API,
        hide_parameters=True,  # errors are logged, and what a client sent must not be
        connect_args={"options": options, "application_name": f"fairlane-{name}", "connect_timeout": 5},
    )


@asynccontextmanager
async def tenant_transaction(engine: AsyncEngine, tenant_id: UUID) -> AsyncIterator[AsyncConnection]:
    """A transaction in which row-level security shows one tenant's rows only."""
    async with engine.begin() as connection:
        await connection.execute(
            text("SELECT set_config('fairlane.tenant_id', :tenant, true)"), {"tenant": str(tenant_id)}
        )
        yield connection
