"""The end of a flow: its account goes, and its tenant's rests when no other flow is active."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import and_, delete, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from db.tables import lane_accounts, turnstiles
from db.tables.accounts import TENANT_LEVEL

_ACCOUNT = lane_accounts.c
_SERVED = _ACCOUNT.vtime - _ACCOUNT.reserved / _ACCOUNT.weight
_OTHER = lane_accounts.alias("other").c


async def end_flow(connection: AsyncConnection, tenant_id: UUID, flow_id: UUID) -> None:
    """Remove the accounts of a flow that will never have a job again.

    The turnstile is locked before the accounts, as a claim does. The tenant's account is locked
    FOR UPDATE and looked at afresh: an enqueue that holds it FOR KEY SHARE is waited for, and the
    flow that it activated is seen.
    """
    ended = await connection.execute(
        select(_ACCOUNT.model, _ACCOUNT.lane)
        .where(_ACCOUNT.tenant_id == tenant_id, _ACCOUNT.flow_id == flow_id)
        .order_by(_ACCOUNT.model, _ACCOUNT.lane)
    )
    for model, lane in ended.all():
        scope = and_(_ACCOUNT.model == model, _ACCOUNT.lane == lane, _ACCOUNT.tenant_id == tenant_id)
        turnstile = and_(turnstiles.c.model == model, turnstiles.c.lane == lane)
        await connection.execute(select(turnstiles.c.floor).where(turnstile).with_for_update())
        await connection.execute(delete(lane_accounts).where(scope, _ACCOUNT.flow_id == flow_id))
        own = and_(scope, _ACCOUNT.flow_id == TENANT_LEVEL)
        await connection.execute(select(_ACCOUNT.active).where(own).with_for_update())
        others = exists().where(
            _OTHER.model == model, _OTHER.lane == lane, _OTHER.tenant_id == tenant_id,
            _OTHER.flow_id != TENANT_LEVEL, _OTHER.active,
        )  # fmt: skip
        rested = await connection.execute(
            update(lane_accounts).where(own, ~others).values(active=False).returning(_SERVED)
        )
        served = rested.scalar_one_or_none()
        if served is not None:  # nobody who comes back later starts below what was served by now
            await connection.execute(
                update(turnstiles).where(turnstile).values(floor=func.greatest(turnstiles.c.floor, served))
            )
