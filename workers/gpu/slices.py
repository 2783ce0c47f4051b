"""Running a slice: read the bodies, give each request to the engine, hand in what came of it."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID, uuid4

import structlog

from db.objects import ObjectLost, Objects, StoreUnreachable
from lanes import failure
from lanes.account import cost
from lanes.failure import Failure
from lanes.ids import Prefix, spell
from lanes.job import ClaimedJob, Lease
from lanes.lane import Lane
from lanes.policy import Policy
from lanes.report import Ending, Finished, GivenBack, stopped
from lanes.retry import RetryBudget, retry_after
from lanes.suspects import halves
from lanes.usage import Usage
from workers.engines.port import Engine, EngineDead, EngineRequest, Reply
from workers.gpu.completer import Completer, Report
from workers.gpu.held import Held, Verdict

log = structlog.get_logger()

Bodies = dict[Lease, bytes | Failure]  # a failure is why the body could not be read


class SliceRunner:
    """Runs claimed jobs, each in a task of its own that `Held` can stop.

    `in_engine` counts the jobs that take a seat; `seat_freed` is set whenever one leaves. `engine_dead`
    is set for good when the engine has died.
    """

    def __init__(
        self, engine: Engine, objects: Objects, held: Held, completer: Completer, policy: Policy
    ) -> None:
        self._engine = engine
        self._objects = objects
        self._held = held
        self._completer = completer
        self._policy = policy
        self._retries = RetryBudget.full(policy)
        self._settlements: defaultdict[Lane, float] = defaultdict(float)
        self._running: dict[Lease, ClaimedJob] = {}  # given to the engine, in this order
        self._suspects: dict[Lease, UUID] = {}  # what ran when the engine died, by their next groups
        self._culprit: Lease | None = None
        self.in_engine = 0
        self.runs_suspects = False
        self.seat_freed = asyncio.Event()
        self.engine_dead = asyncio.Event()

    async def start(self, jobs: Sequence[ClaimedJob]) -> None:
        """Begin a slice; returns once its bodies are read and its requests are under way."""
        claimed_at = asyncio.get_running_loop().time()
        self.runs_suspects = any(job.suspects for job in jobs)
        gate: asyncio.Future[Bodies] = asyncio.get_running_loop().create_future()
        for job in jobs:  # held from the first moment, so that the heartbeat names them
            task = asyncio.create_task(self._work(job, gate, claimed_at), name=f"job {job.lease.job_id}")
            self.in_engine += 1
            self._held.add(job.lease, task)
        gate.set_result(await self._read_bodies(jobs))

    def take_settlements(self) -> dict[Lane, float]:
        """What ended jobs used more, or less, than was charged since the last call, by lane."""
        settled, self._settlements = self._settlements, defaultdict(float)
        return dict(settled)

    def give_back_unstarted(self) -> None:
        """Give back, without blame, what has not begun: the engine runs no more than its seats at once."""
        order = sorted(self._running, key=lambda lease: self._running[lease].lane)  # stable: as they came
        begun = set(order[: self._engine.seats])
        for lease in self._held.leases() - begun:
            self._held.stop(lease, Verdict.DRAINING)

    def engine_died(self) -> None:
        """The engine is gone: whatever it was given is suspected, and runs next in smaller groups.

        A job that was alone is the culprit only when it was a suspect already: an engine that dies of
        something else takes down whoever happens to be in it.
        """
        if self.engine_dead.is_set():
            return
        self.engine_dead.set()
        running = list(self._running)
        if len(running) == 1 and self._running[running[0]].suspects is not None:
            [self._culprit] = running
            return
        for group in halves(running) or (running,):
            self._suspects.update(dict.fromkeys(group, uuid4()))

    async def _read_bodies(self, jobs: Sequence[ClaimedJob]) -> Bodies:
        by_segment: dict[str, list[ClaimedJob]] = defaultdict(list)
        for job in jobs:
            by_segment[job.object_key].append(job)
        bodies: Bodies = {}
        for key, group in by_segment.items():
            try:
                parts = await self._objects.read_ranges(
                    key, [(job.byte_offset, job.byte_length) for job in group]
                )
            except (ObjectLost, StoreUnreachable) as error:
                log.error("segment.unreadable", segment=key, error=type(error).__name__)
                lost = isinstance(error, ObjectLost)
                reason = failure.BODY_LOST if lost else failure.STORE_UNREACHABLE
                bodies.update((job.lease, reason) for job in group)
            else:
                bodies.update((job.lease, body) for job, body in zip(group, parts, strict=True))
        return bodies

    async def _work(self, job: ClaimedJob, gate: asyncio.Future[Bodies], claimed_at: float) -> None:
        clock = asyncio.get_running_loop().time
        started_ms: int | None = None

        def since_claim_ms() -> int:
            return round((clock() - claimed_at) * 1000)

        try:
            body = (await asyncio.shield(gate))[job.lease]
            if isinstance(body, Failure):
                report = self._failed(job, body, since_claim_ms(), None)
            else:
                started_ms = since_claim_ms()
                self._running[job.lease] = job
                reply = await self._engine.run(_request(job, body))
                report = self._answered(job, reply, started_ms, since_claim_ms())
        except asyncio.CancelledError:
            verdict = self._held.verdict(job.lease)
            if verdict is None or verdict is Verdict.LOST:
                self._held.drop(job.lease)
                return
            report = (
                stopped(job.lease, job.tenant_id, started_ms, since_claim_ms())
                if verdict is Verdict.STOPPING
                else self._let_go(job, since_claim_ms(), started_ms)
            )
        except EngineDead:
            self.engine_died()
            report = self._let_go(job, since_claim_ms(), started_ms)
        except Exception:  # an engine's own error must end this job's attempt, not the worker
            log.exception("engine.error", job=str(job.lease.job_id), attempt=job.attempts + 1)
            report = self._failed(job, failure.ENGINE_ERROR, since_claim_ms(), started_ms)
        finally:
            self._running.pop(job.lease, None)
            self.in_engine -= 1
            self.seat_freed.set()
        if isinstance(report, Finished):
            self._retries = self._retries.after_finish(self._policy)
            self._settlements[job.lane] += self._difference(job, report.usage)
        self._completer.submit(report)

    def _difference(self, job: ClaimedJob, used: Usage) -> float:
        charged = cost(job.input_tokens, job.output_tokens, self._policy)
        return cost(used.input_tokens - used.cached_tokens, used.output_tokens, self._policy) - charged

    def _let_go(self, job: ClaimedJob, ended_ms: int, started_ms: int | None) -> Report:
        """What becomes of a job that did not end by itself: nobody blames it, unless it kills engines."""
        if job.lease == self._culprit:
            log.error("engine.killer", job=str(job.lease.job_id))
            return _ended(job, failure.ENGINE_KILLER, ended_ms, started_ms)
        return GivenBack(job.lease, job.tenant_id, 0, False, self._suspects.get(job.lease))

    def _answered(self, job: ClaimedJob, reply: Reply, started_ms: int, ended_ms: int) -> Report:
        if reply.status >= 500:
            again = self._again(job, failure.ENGINE_ERROR, ended_ms)
            if again is not None:
                return again
        ending: Ending = "succeeded" if reply.status == 200 else "failed"
        return Finished(
            job.lease,
            job.tenant_id,
            ending,
            reply.status,
            None,
            reply.body,
            reply.usage,
            started_ms,
            ended_ms,
        )

    def _failed(self, job: ClaimedJob, reason: Failure, ended_ms: int, started_ms: int | None) -> Report:
        return self._again(job, reason, ended_ms) or _ended(job, reason, ended_ms, started_ms)

    def _again(self, job: ClaimedJob, reason: Failure, ended_ms: int) -> GivenBack | None:
        remaining = job.remaining_seconds - ended_ms / 1000
        jitter = random.random()  # noqa: S311  # spreads retries, keeps no secret
        in_budget = self._retries.allows
        wait = retry_after(reason, job.attempts + 1, remaining, jitter, self._policy, in_budget=in_budget)
        if wait is None:
            return None
        if reason.blames_job:
            self._retries = self._retries.after_retry()
        return GivenBack(job.lease, job.tenant_id, round(wait * 1000), reason.blames_job)


def _ended(job: ClaimedJob, reason: Failure, ended_ms: int, started_ms: int | None) -> Finished:
    return Finished(job.lease, job.tenant_id, "failed", None, reason, None, Usage(), started_ms, ended_ms)


def _request(job: ClaimedJob, body: bytes) -> EngineRequest:
    # The fence makes the id new for every lease: an engine never sees one twice.
    request_id = f"{spell(Prefix.REQUEST, job.lease.job_id)}-{job.lease.fence}"
    return EngineRequest(request_id, job.endpoint, json.loads(body), job.lane)
