"""Every way in which a job may change state, in one table.

A transition is named. It says from which states it may start, where it leads, whether it needs
the lease's fence, whether it raises the fence, and whether it counts against the attempts. The
database writes it as compare-and-set on exactly these fields (db/sql), so that a transition
whose time has passed changes no row.
"""

from __future__ import annotations

from dataclasses import dataclass

from lanes.job import LEASED, JobState


@dataclass(frozen=True, slots=True)
class Transition:
    name: str
    sources: frozenset[JobState]
    target: JobState
    fenced: bool  # must carry the fence of the present lease
    raises_fence: bool  # whoever held the lease loses it
    counts_attempt: bool  # blames the job


_QUEUED = frozenset({JobState.QUEUED})

CLAIM = Transition("claim", _QUEUED, JobState.RUNNING, False, True, False)
# Giving back without blame: drain, eviction, an engine that died under many jobs.
RELEASE = Transition("release", frozenset({JobState.RUNNING}), JobState.QUEUED, True, True, False)
# The attempt failed in a way that another attempt may mend.
RETRY = Transition("retry", frozenset({JobState.RUNNING}), JobState.QUEUED, True, True, True)
# The worker is gone; the fence rises so that it can never write again.
RESCUE = Transition("rescue", frozenset({JobState.RUNNING}), JobState.QUEUED, False, True, False)
# The worker is asked to stop; the lease stays its own until it answers.
STOP = Transition("stop", frozenset({JobState.RUNNING}), JobState.CANCELLING, False, False, False)
SUCCEED = Transition("succeed", LEASED, JobState.SUCCEEDED, True, False, False)
FAIL = Transition("fail", LEASED, JobState.FAILED, True, False, True)
# A worker's answer to STOP.
STOP_CANCELLED = Transition(
    "stop_cancelled", frozenset({JobState.CANCELLING}), JobState.CANCELLED, True, False, False
)
STOP_EXPIRED = Transition(
    "stop_expired", frozenset({JobState.CANCELLING}), JobState.EXPIRED, True, False, False
)
# Nobody holds the job (queued), or whoever did is gone (cancelling without a live worker).
CANCEL = Transition("cancel", _QUEUED, JobState.CANCELLED, False, False, False)
EXPIRE = Transition("expire", _QUEUED, JobState.EXPIRED, False, False, False)
BURY_CANCELLED = Transition(
    "bury_cancelled", frozenset({JobState.CANCELLING}), JobState.CANCELLED, False, False, False
)
BURY_EXPIRED = Transition(
    "bury_expired", frozenset({JobState.CANCELLING}), JobState.EXPIRED, False, False, False
)

TABLE = (
    CLAIM, RELEASE, RETRY, RESCUE, STOP, SUCCEED, FAIL, STOP_CANCELLED, STOP_EXPIRED,
    CANCEL, EXPIRE, BURY_CANCELLED, BURY_EXPIRED,
)  # fmt: skip


def allowed(state: JobState) -> tuple[Transition, ...]:
    """The transitions that may start from a state; none from a terminal one."""
    return tuple(t for t in TABLE if state in t.sources)
