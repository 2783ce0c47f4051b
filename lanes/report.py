"""What a worker reports of a leased job: how it ended, or that it gives it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from lanes.failure import Failure
from lanes.job import Lease
from lanes.usage import Usage

# "stopped" answers a request to stop; the database knows whether that was a cancel or an expiry.
Ending = Literal["succeeded", "failed", "stopped"]


@dataclass(frozen=True, slots=True)
class Finished:
    """A job that ended. Exactly one of `status` (the engine answered) and `failure` is set,
    except for "stopped", where neither is. Times count from the claim."""

    lease: Lease
    tenant_id: UUID
    ending: Ending
    status: int | None
    failure: Failure | None
    body: bytes | None
    usage: Usage
    started_ms: int | None  # None: never given to the engine
    ended_ms: int | None


@dataclass(frozen=True, slots=True)
class GivenBack:
    """A job that goes back to the queue, after a delay, blamed for it or not.

    `suspects` names the group with which it runs next, with an engine to itself, when its engine
    died (lanes/suspects.py).
    """

    lease: Lease
    tenant_id: UUID
    delay_ms: int
    blamed: bool
    suspects: UUID | None = None


def stopped(
    lease: Lease, tenant_id: UUID, started_ms: int | None = None, ended_ms: int | None = None
) -> Finished:
    """The answer to a request to stop."""
    return Finished(lease, tenant_id, "stopped", None, None, None, Usage(), started_ms, ended_ms)
