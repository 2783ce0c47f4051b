"""`python -m bench.plan_switch`: a GPU worker that plans its claims fairly or in order of arrival, as
the file named by FAIRLANE_BENCH_PLAN says at each claim. For fairness_cost, and for nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from db import claims
from lanes.plan import Snapshot, Take, plan
from lanes.policy import Policy
from workers.gpu.__main__ import main

PLAN_FILE = "FAIRLANE_BENCH_PLAN"
FAIR, FIFO = "fair", "fifo"


def fifo_plan(snapshot: Snapshot, policy: Policy) -> tuple[Take, ...]:
    """The jobs of the oldest batch first, whoever it belongs to; as many at once as the fair plan."""
    seats = min(snapshot.free_seats, policy.slice_jobs)
    takes = []
    for flow in sorted(snapshot.flows, key=lambda flow: flow.flow_id):  # uuidv7: in order of creation
        if seats <= 0:
            break
        left = seats if flow.queued_jobs_left is None else min(seats, flow.queued_jobs_left)
        takes.append(Take(flow.tenant_id, flow.flow_id, left))
        seats -= left
    return tuple(takes)


def switched(path: Path) -> Callable[[Snapshot, Policy], tuple[Take, ...]]:
    """The plan that the file names when it is called."""
    plans = {FAIR: plan, FIFO: fifo_plan}

    def by_file(snapshot: Snapshot, policy: Policy) -> tuple[Take, ...]:
        return plans[path.read_text()](snapshot, policy)

    return by_file


if __name__ == "__main__":
    if vars(claims)["plan"] is not plan:
        raise RuntimeError("db.claims plans in another way than this bench replaces")
    vars(claims)["plan"] = switched(Path(os.environ[PLAN_FILE]))
    sys.exit(main())
