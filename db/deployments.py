"""Deployments: the models that can be asked for, each with its engine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from db.tables import deployments


@dataclass(frozen=True, slots=True)
class Deployment:
    name: str  # what a request's `model` says
    engine: str
    context_tokens: int
    created_at: datetime


async def register_deployment(
    connection: AsyncConnection, name: str, engine: str, context_tokens: int
) -> None:
    """Make a deployment or bring its settings up to date, as the engine role."""
    values = {"engine": engine, "context_tokens": context_tokens}
    await connection.execute(
        insert(deployments)
        .values(name=name, **values)
        .on_conflict_do_update(index_elements=[deployments.c.name], set_=values)
    )


async def list_deployments(connection: AsyncConnection) -> list[Deployment]:
    """All of them, by name."""
    found = await connection.execute(select(deployments).order_by(deployments.c.name))
    return [_deployment(row) for row in found]


async def get_deployment(connection: AsyncConnection, name: str) -> Deployment | None:
    found = await connection.execute(select(deployments).where(deployments.c.name == name))
    row = found.one_or_none()
    return None if row is None else _deployment(row)


def _deployment(row: Row[Any]) -> Deployment:
    return Deployment(**row._mapping)
