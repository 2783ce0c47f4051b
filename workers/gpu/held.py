"""The jobs that this worker holds, each from its claim until its report is stored."""

from __future__ import annotations

import asyncio
from enum import Enum

from lanes.job import Lease


class Verdict(Enum):
    """Why a running request was told to stop."""

    LOST = "lost"  # the lease is another's: drop everything, report nothing
    STOPPING = "stopping"  # cancelled or expired: report what ran
    DRAINING = "draining"  # the worker leaves: give the job back


class Held:
    """Leases by job, with the task that works on each. Lives on the worker's event loop.

    `leases` may be called from another thread: it copies the dictionary in one step.
    """

    def __init__(self) -> None:
        self._tasks: dict[Lease, asyncio.Task[None]] = {}
        self._verdicts: dict[Lease, Verdict] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, lease: Lease, task: asyncio.Task[None]) -> None:
        self._tasks[lease] = task

    def drop(self, lease: Lease) -> None:
        """The job's report is stored, or the lease was lost: it is no longer ours."""
        self._tasks.pop(lease, None)
        self._verdicts.pop(lease, None)
        self._changed.set()

    def leases(self) -> set[Lease]:
        return set(self._tasks.copy())

    def verdict(self, lease: Lease) -> Verdict | None:
        return self._verdicts.get(lease)

    def stop(self, lease: Lease, verdict: Verdict) -> None:
        """Cancel the job's task; the first verdict stands. Nothing happens if it has ended."""
        task = self._tasks.get(lease)
        if task is not None and lease not in self._verdicts and not task.done():
            self._verdicts[lease] = verdict
            task.cancel()

    def stop_all(self, verdict: Verdict) -> None:
        for lease in tuple(self._tasks):
            self.stop(lease, verdict)

    async def until_empty(self) -> None:
        """Wait until no job is held."""
        while self._tasks:
            self._changed.clear()
            await self._changed.wait()
