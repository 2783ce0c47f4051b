"""The SQL that moves jobs is `lanes.transitions`, row by row: from the same states, to the same state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

import pytest
from sqlalchemy import Row

from db import replicas, reports, sweeps
from db.claims import claim_suspects
from db.objects import Objects
from lanes import failure, transitions
from lanes.job import LIVE, JobState, Lease
from lanes.report import Finished, GivenBack, stopped
from lanes.transitions import TABLE, Transition
from lanes.usage import Usage
from tests.world import MODEL, World


@dataclass
class Scene:
    """One job in one state, held by `boot` where that state is a leased one."""

    world: World
    objects: Objects
    boot: UUID
    lease: Lease
    tenant: UUID

    async def finish(self, report: Finished) -> None:
        await reports.finish(self.world.database, self.objects, [report], self.world.policy)

    async def give_back(self, *, blamed: bool) -> None:
        back = GivenBack(self.lease, self.tenant, 0, blamed)
        await reports.give_back(self.world.database, [back], self.world.policy)

    async def sweep(self, step: Callable[..., Awaitable[object]], *given: object) -> None:
        async with self.world.database.begin() as connection:
            await step(connection, *given)

    async def worker_gone(self) -> None:
        await replicas.retire(self.world.database, self.boot)

    async def past_deadline(self) -> None:
        await self.world.execute("UPDATE jobs SET deadline = clock_timestamp() - interval '1 s'")

    async def batch_cancelling(self) -> None:
        await self.world.execute("UPDATE batches SET status = 'cancelling'")


async def _claim(scene: Scene) -> None:
    await scene.world.claim(await scene.world.worker(), 1)


async def _claim_suspects(scene: Scene) -> None:
    await scene.world.execute(
        "UPDATE jobs SET suspects = gen_random_uuid(), suspected_at = clock_timestamp()"
    )
    boot = await scene.world.worker()
    await claim_suspects(scene.world.database, model=MODEL, boot_id=boot, policy=scene.world.policy)


async def _succeed(scene: Scene) -> None:
    await scene.finish(Finished(scene.lease, scene.tenant, "succeeded", 200, None, b"{}", Usage(), 1, 2))


async def _fail(scene: Scene) -> None:
    reason = failure.ENGINE_ERROR
    await scene.finish(Finished(scene.lease, scene.tenant, "failed", None, reason, None, Usage(), 1, 2))


async def _stopped(scene: Scene) -> None:
    await scene.finish(stopped(scene.lease, scene.tenant))


async def _rescue(scene: Scene) -> None:
    await scene.worker_gone()
    await scene.sweep(replicas.rescue, sweeps.CHUNK, scene.world.policy)


async def _bury(scene: Scene) -> None:
    await scene.worker_gone()
    await scene.sweep(sweeps.bury, scene.world.policy)


async def _stop(scene: Scene) -> None:
    await scene.past_deadline()
    await scene.sweep(sweeps.stop_running)


async def _stop_cancelled_batch(scene: Scene) -> None:
    await scene.batch_cancelling()
    await scene.sweep(sweeps.stop_running)


async def _expire(scene: Scene) -> None:
    await scene.past_deadline()
    await scene.sweep(sweeps.expire_queued, scene.world.policy)


async def _cancel(scene: Scene) -> None:
    await scene.batch_cancelling()
    await scene.sweep(sweeps.cancel_queued, scene.world.policy)


Way = Callable[[Scene], Awaitable[None]]

# How each transition is made, and what a job in `cancelling` was asked to end as.
WAYS: list[tuple[Transition, Way, str]] = [
    (transitions.CLAIM, _claim, "cancelled"),
    (transitions.CLAIM, _claim_suspects, "cancelled"),
    (transitions.RELEASE, lambda scene: scene.give_back(blamed=False), "cancelled"),
    (transitions.RETRY, lambda scene: scene.give_back(blamed=True), "cancelled"),
    (transitions.RESCUE, _rescue, "cancelled"),
    (transitions.STOP, _stop, "cancelled"),
    (transitions.STOP, _stop_cancelled_batch, "cancelled"),
    (transitions.SUCCEED, _succeed, "cancelled"),
    (transitions.FAIL, _fail, "cancelled"),
    (transitions.STOP_CANCELLED, _stopped, "cancelled"),
    (transitions.STOP_EXPIRED, _stopped, "expired"),
    (transitions.CANCEL, _cancel, "cancelled"),
    (transitions.EXPIRE, _expire, "cancelled"),
    (transitions.BURY_CANCELLED, _bury, "cancelled"),
    (transitions.BURY_EXPIRED, _bury, "expired"),
]


async def scene_in(world: World, objects: Objects, state: JobState, ending: str) -> Scene:
    tenant = await world.tenant()
    await world.batch(tenant, 1)
    boot = await world.worker()
    if state is not JobState.QUEUED:
        await world.claim(boot, 1)
    if state is JobState.CANCELLING:
        await world.execute("UPDATE jobs SET state = 'cancelling', ending = :ending", ending=ending)
    [row] = await world.live()
    return Scene(world, objects, boot, Lease(row.id, row.fence), tenant)


async def only_job(world: World) -> Row[tuple[object, ...]]:
    [row] = await world.rows(
        "SELECT state, fence, attempts FROM jobs UNION ALL SELECT state, fence, attempts FROM jobs_done"
    )
    return row


@pytest.mark.parametrize("state", sorted(LIVE))
@pytest.mark.parametrize(
    ("transition", "way", "ending"), WAYS, ids=lambda value: getattr(value, "name", None)
)
async def test_it_moves_from_its_sources_and_from_no_other_state(
    world: World, objects: Objects, transition: Transition, way: Way, ending: str, state: JobState
) -> None:
    scene = await scene_in(world, objects, state, ending)
    before = await only_job(world)

    await way(scene)

    after = await only_job(world)
    if state in transition.sources:
        assert after.state == transition.target
        assert after.fence - before.fence == int(transition.raises_fence)
        assert after.attempts - before.attempts == int(transition.counts_attempt)
    else:
        assert tuple(after) == tuple(before)


@pytest.mark.parametrize(
    ("transition", "way", "ending", "state"),
    [(*way, state) for way in WAYS if way[0].fenced for state in sorted(way[0].sources)],
    ids=lambda value: getattr(value, "name", None),
)
async def test_what_needs_a_fence_does_nothing_under_another(
    world: World, objects: Objects, transition: Transition, way: Way, ending: str, state: JobState
) -> None:
    scene = await scene_in(world, objects, state, ending)
    before = await only_job(world)
    scene.lease = Lease(scene.lease.job_id, scene.lease.fence - 1)

    await way(scene)

    assert tuple(await only_job(world)) == tuple(before)


def test_every_transition_has_its_statement() -> None:
    assert {transition.name for transition, _, _ in WAYS} == {transition.name for transition in TABLE}
