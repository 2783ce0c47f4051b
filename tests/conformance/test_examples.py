"""The rules of the queue, one by one, on the oracle and on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest

from lanes import failure
from lanes.batch import BatchStatus
from lanes.job import JobState
from lanes.suspects import halves
from tests.conformance.port import Hold, JobName, Line, Queue, Sweep, Used

ACME, OTHER, THIRD = (UUID(int=n) for n in (1, 2, 3))
FLOW, SECOND = UUID(int=10), UUID(int=11)
BOOT, SPARE = UUID(int=20), UUID(int=21)
JOB = Line(input_tokens=8, output_tokens=4, window=9)  # costs 16
USED = Used(8, 4)


@pytest.fixture
async def ready(queue: Queue) -> Queue:
    """Two tenants of equal weight and two workers."""
    for tenant in (ACME, OTHER):
        await queue.tenant(tenant, 1.0)
    for boot in (BOOT, SPARE):
        await queue.worker(boot)
    return queue


async def states(queue: Queue) -> Counter[JobState]:
    return Counter(job.state for job in (await queue.view()).jobs.values())


async def one_leased(queue: Queue, lines: int = 1) -> Hold:
    await queue.enqueue(ACME, FLOW, [JOB] * lines)
    [hold] = await queue.claim(BOOT, 1)
    return hold


async def test_a_claim_raises_the_fence_and_goes_by_rank_and_line(ready: Queue) -> None:
    ranks = (1, 0, 1, 0, -1)
    await ready.enqueue(ACME, FLOW, [Line(8, 4, 9, rank) for rank in ranks])

    order = [hold for _ in ranks for hold in await ready.claim(BOOT, 1)]

    assert [hold.job.line for hold in order] == [5, 2, 4, 1, 3]
    assert {hold.fence for hold in order} == {1}
    assert not await ready.claim(SPARE, 6), "each is leased once"


async def test_what_ended_stays_as_it_ended(ready: Queue) -> None:
    hold = await one_leased(ready)
    assert await ready.succeed(hold, USED)

    assert not await ready.succeed(hold, USED)
    assert not await ready.fail(hold, failure.ENGINE_ERROR)
    assert not await ready.retry(hold, 1)
    assert not await ready.release(hold)
    assert not await ready.stopped(hold)
    assert await states(ready) == {JobState.SUCCEEDED: 1}


async def test_an_old_fence_moves_nothing(ready: Queue) -> None:
    old = await one_leased(ready)
    assert await ready.release(old)
    [new] = await ready.claim(SPARE, 1)
    before = await ready.view()

    assert new.fence == old.fence + 2, "giving back and leasing each raise it"
    assert not await ready.succeed(old, USED)
    assert not await ready.retry(old, 1)
    assert not await ready.release(old)
    assert await ready.view() == before
    assert await ready.succeed(new, USED)


async def test_only_blame_counts_and_a_retry_waits(ready: Queue) -> None:
    assert await ready.release(await one_leased(ready))
    [hold] = await ready.claim(BOOT, 1)
    assert await ready.retry(hold, 2)

    [job] = (await ready.view()).jobs.values()
    assert (job.attempts, job.delayed) == (1, True)
    await ready.pass_time(1)
    assert await ready.sweep(Sweep.WAKE) == 0
    assert not await ready.claim(SPARE, 1)
    await ready.pass_time(1)
    assert await ready.sweep(Sweep.WAKE) == 1
    assert len(await ready.claim(SPARE, 1)) == 1


async def test_a_job_that_comes_back_goes_first_again(ready: Queue) -> None:
    await ready.enqueue(ACME, FLOW, [JOB] * 6)
    first, *_ = sorted(await ready.claim(BOOT, 4))
    await ready.claim(SPARE, 1)  # folds what was charged
    assert await ready.release(first)

    [again] = await ready.claim(SPARE, 1)

    assert again == Hold(first.job, 3)


async def test_a_silent_worker_loses_its_jobs_without_blame(ready: Queue) -> None:
    hold = await one_leased(ready, lines=2)
    await ready.pass_time(1)
    await ready.beat(SPARE)
    assert await ready.sweep(Sweep.RESCUE) == 0, "its lease lasts two units"
    await ready.pass_time(1)
    await ready.beat(SPARE)
    assert await ready.sweep(Sweep.RESCUE) == 1

    assert not (await ready.beat(BOOT)).alive
    assert not await ready.claim(BOOT, 1)
    assert not await ready.succeed(hold, USED)
    again = await ready.claim(SPARE, 2)
    assert {hold.job for hold in again} == {JobName(FLOW, 1), JobName(FLOW, 2)}
    assert {job.attempts for job in (await ready.view()).jobs.values()} == {0}


async def test_the_heartbeat_names_a_lease_that_the_worker_never_heard_of(ready: Queue) -> None:
    await one_leased(ready)  # as if the answer had been lost

    [unknown] = (await ready.beat(BOOT)).held

    assert await ready.release(unknown)
    assert not (await ready.beat(BOOT)).held
    assert await states(ready) == {JobState.QUEUED: 1}


async def test_a_cancel_ends_what_waits_and_asks_what_runs(ready: Queue) -> None:
    hold = await one_leased(ready, lines=3)
    assert await ready.cancel(FLOW)

    assert not await ready.claim(SPARE, 3), "from now on nothing of it is leased"
    assert await ready.sweep(Sweep.CANCEL) == 2
    assert await ready.sweep(Sweep.STOP) == 1
    assert (await ready.beat(BOOT)).stopping == {hold}
    assert not await ready.release(hold), "it was asked to stop: it never runs again"
    assert await ready.stopped(hold)
    assert await ready.close_ended() == 1
    flow = (await ready.view()).flows[FLOW]
    assert (flow.status, flow.error_lines) == (BatchStatus.CANCELLED, (1, 2, 3))


async def test_an_answer_that_was_there_before_the_stop_counts(ready: Queue) -> None:
    hold = await one_leased(ready)
    assert await ready.cancel(FLOW)
    assert await ready.sweep(Sweep.STOP) == 1

    assert await ready.succeed(hold, USED)
    assert await ready.close_ended() == 1
    flow = (await ready.view()).flows[FLOW]
    assert (flow.status, flow.output_lines) == (BatchStatus.CANCELLED, (1,))


async def test_a_stop_that_nobody_can_answer_ends_as_asked(ready: Queue) -> None:
    await one_leased(ready)
    assert await ready.cancel(FLOW)
    assert await ready.sweep(Sweep.STOP) == 1
    assert await ready.sweep(Sweep.BURY) == 0, "its worker may still answer"
    await ready.retire(BOOT)

    assert await ready.sweep(Sweep.RESCUE) == 0
    assert await ready.sweep(Sweep.BURY) == 1
    assert await states(ready) == {JobState.CANCELLED: 1}


async def test_past_its_deadline_a_job_expires_and_finished_work_is_kept(ready: Queue) -> None:
    await ready.enqueue(ACME, FLOW, [Line(8, 4, window) for window in (9, 9, 2, 2)])
    done, late = sorted(await ready.claim(BOOT, 2))
    assert await ready.succeed(done, USED)
    await ready.pass_time(2)

    assert await ready.sweep(Sweep.EXPIRE) == 2
    assert not await ready.claim(SPARE, 4)
    assert await ready.sweep(Sweep.STOP) == 0
    for _ in range(7):
        await ready.pass_time(1)
        await ready.beat(BOOT)
    assert await ready.sweep(Sweep.STOP) == 1
    assert await ready.stopped(late)
    assert await ready.close_ended() == 1
    flow = (await ready.view()).flows[FLOW]
    assert (flow.status, flow.output_lines, flow.error_lines) == (BatchStatus.EXPIRED, (1,), (2, 3, 4))


async def test_what_was_put_behind_others_does_not_wait_for_ever(ready: Queue) -> None:
    await ready.enqueue(ACME, FLOW, [Line(8, 4, 9, rank) for rank in (5, 0, 0)])
    assert await ready.sweep(Sweep.AGE) == 0
    await ready.pass_time(3)
    await ready.beat(BOOT)

    assert await ready.sweep(Sweep.AGE) == 1
    [hold] = await ready.claim(BOOT, 1)
    assert hold.job.line == 1


async def test_one_job_that_kills_engines_takes_no_other_with_it(ready: Queue) -> None:
    """Each death sends its jobs back in two groups that run alone."""
    killer = JobName(FLOW, 5)
    await ready.enqueue(ACME, FLOW, [JOB] * 6)
    running, groups = await ready.claim(BOOT, 6), iter(range(100, 200))
    deaths = 0
    while running:
        if killer not in {hold.job for hold in running}:
            assert all([await ready.succeed(hold, USED) for hold in running])
        elif len(running) == 1:
            assert await ready.fail(next(iter(running)), failure.ENGINE_KILLER)
        else:
            deaths += 1
            for half in halves(sorted(running)):
                group = UUID(int=next(groups))
                assert all([await ready.suspect(hold, group) for hold in half])
            assert not await ready.claim(SPARE, 6), "suspects are for an empty engine"
        running = await ready.claim_suspects(BOOT)

    assert deaths <= 3
    view = await ready.view()
    assert {name for name, job in view.jobs.items() if job.state == JobState.FAILED} == {killer}
    assert await states(ready) == {JobState.SUCCEEDED: 5, JobState.FAILED: 1}


# -- invariant 6: shares ---------------------------------------------------------------------------


async def served(queue: Queue, claims: int, seats: int = 1) -> Counter[UUID]:
    """Which flows get the seats of so many claims."""
    return Counter([hold.job.flow for _ in range(claims) for hold in await queue.claim(BOOT, seats)])


async def ran(queue: Queue, claims: int, seats: int) -> None:
    """So many claims, each run to its end."""
    for _ in range(claims):
        for hold in await queue.claim(BOOT, seats):
            assert await queue.succeed(hold, USED)


async def test_tenants_share_by_weight(ready: Queue) -> None:
    await ready.tenant(THIRD, 4.0)
    await ready.enqueue(ACME, FLOW, [JOB] * 60)
    await ready.enqueue(THIRD, SECOND, [JOB] * 60)

    shares = await served(ready, 12, seats=5)

    # the quantum of 64 is four jobs, or one of a tenant with four times the weight
    assert abs(shares[SECOND] - 48) <= 5
    assert sum(shares.values()) == 60


async def test_a_tenant_that_comes_late_is_served_no_more_than_the_others(ready: Queue) -> None:
    await ready.enqueue(ACME, FLOW, [JOB] * 60)
    await ran(ready, 5, seats=6)
    await ready.enqueue(OTHER, SECOND, [JOB] * 30)

    shares = await served(ready, 4, seats=5)

    # it is ahead by a quantum of four jobs and by a slice of six that was not folded when it came
    assert abs(shares[FLOW] - shares[SECOND]) <= 10


async def test_a_tenant_that_comes_late_does_not_stand_back_for_what_only_runs_yet(ready: Queue) -> None:
    """Nobody was served anything: the newcomer gets as many seats as the other has, and no more."""
    await ready.enqueue(ACME, FLOW, [JOB] * 60)
    await served(ready, 2, seats=6)
    await ready.enqueue(OTHER, SECOND, [JOB] * 30)

    shares = await served(ready, 6, seats=6)

    assert abs(12 + shares[FLOW] - shares[SECOND]) <= 5, "a quantum, and one for rounding"


async def test_a_tenant_whose_only_job_runs_for_long_saves_no_credit(ready: Queue) -> None:
    await ready.enqueue(OTHER, UUID(int=12), [JOB])
    assert len(await ready.claim(SPARE, 1)) == 1
    await ready.enqueue(ACME, FLOW, [JOB] * 90)
    await ran(ready, 10, seats=6)
    await ready.enqueue(OTHER, SECOND, [JOB] * 30)

    shares = await served(ready, 4, seats=5)

    assert abs(shares[FLOW] - shares[SECOND]) <= 10, "a quantum and a slice"


async def test_what_was_not_used_is_given_back_to_its_tenant(ready: Queue) -> None:
    """Charged by the prediction, settled by what ran: both got the same, so both are served alike."""
    await ready.enqueue(ACME, FLOW, [Line(8, 28, 9)] * 30)  # predicted to cost 64
    await ready.enqueue(OTHER, SECOND, [JOB] * 100)
    tokens: Counter[UUID] = Counter()
    for _ in range(40):
        for hold in await ready.claim(BOOT, 1):
            tokens[hold.job.flow] += 16
            assert await ready.succeed(hold, USED)

    assert abs(tokens[FLOW] - tokens[SECOND]) <= 2 * 64


async def test_flows_of_one_tenant_share_evenly(ready: Queue) -> None:
    flows = [UUID(int=n) for n in (10, 11, 12)]
    for flow in flows:
        await ready.enqueue(ACME, flow, [JOB] * 20)

    shares = await served(ready, 9, seats=4)

    assert set(shares) == set(flows)
    assert max(shares.values()) - min(shares.values()) <= 4
