"""The scheduling policy: one frozen value with every number, and its version."""

from __future__ import annotations

from dataclasses import dataclass, field

from lanes.aimd import CapKnobs
from lanes.step_values import StepKnobs


@dataclass(frozen=True, slots=True)
class Policy:
    version: int = 1
    # fairness: the cost of a token, input and output (2401.00588 uses the same 1:2)
    input_cost: float = 1.0
    output_cost: float = 2.0
    # whoever has the turn keeps it until it is this much cost ahead (prefix groups stay together);
    # the bound of fairness grows by as much
    quantum_cost: float = 1024.0
    # a job that does not fit into a worker's free KV is overtaken until the others are this much ahead
    overtake_cost: float = 16384.0
    # claims
    slice_jobs: int = 64  # the most that one claim takes
    accounts_per_seat: int = 4  # active flows looked at, per free seat
    flows_per_tenant: int = 16  # of these, of one tenant at most
    turnstile_seconds: float = 0.1  # a lane's floor is written at most so often: each version costs claims
    poll_seconds: float = 1.0  # a claim loop looks this often without a doorbell, jittered
    # lanes: P1 goes before P2, but
    p2_min_share: float = 0.1  # of the served cost is P2's while both wait,
    share_half_life_seconds: float = 60.0  # by what was served lately,
    # and a lane with work that got no seat for so long goes next. A queued line that its client put
    # behind others of its batch (rank above 0) goes back to rank 0 after as long, and a single job of
    # any rank before all that come later.
    age_seconds: float = 300.0
    # deadlines: a flow predicted to miss its own goes first in its tenant
    at_risk_share: float = 0.5  # with at most this share of the tenant's seats
    risk_margin: float = 1.5  # predicted times are stretched by this before they are believed
    # leases: a worker that misses `lease_seconds / beat_seconds` beats has lost its jobs
    lease_seconds: float = 12.0
    beat_seconds: float = 2.0
    # retries
    attempts: int = 3
    backoff_seconds: float = 1.0
    backoff_limit_seconds: float = 60.0
    retry_budget_share: float = 0.1  # retries that blame the job, per finished job of a worker;
    retry_budget_burst: float = 10.0  # so many may be saved up, and a new worker starts with them
    # an engine died under several jobs: they run in halves until the culprit is alone
    suspect_patience_seconds: float = 5.0  # a busy worker lets its engine run empty for older groups
    # queueing
    bucket_seconds: int = 300  # width of a deadline bucket
    rank_limit: int = 8  # a job's rank, `fairlane_priority`, lies between minus and plus this
    prefix_bytes: int = 512  # requests whose prompts begin alike for so long run together
    output_guess_tokens: int = 256  # predicted output where nothing else is known
    output_quantile: float = 0.9  # of the lengths seen, where they are known
    young_samples: int = 50  # with fewer, the guess has its part in the prediction
    rate_half_life_seconds: float = 60.0  # of the measured service rate
    # admission: predicted times are stretched by this before a request is turned away for them
    admission_margin: float = 1.1
    queued_jobs_limit: int = 10_000  # single jobs of a model and lane; a look at a queue goes no further
    queued_seconds_limit: float = 86_400.0  # of work queued in a lane, at its measured rate
    least_output_tokens: int = 16  # no answer is cut below this to make it end in time
    # engine steps shared by P0 and P2
    step: StepKnobs = field(default_factory=StepKnobs)
    cap: CapKnobs = field(default_factory=CapKnobs)  # instead, on an engine without our scheduler
    # input files
    file_bytes: int = 10 << 30
    file_lines: int = 1_000_000  # lines with text
    line_bytes: int = 32 << 20
    segment_bytes: int = 8 << 20  # a segment is closed once it holds this much,
    segment_lines: int = 5_000  # or so many lines
    listed_errors: int = 1_000  # shown with the batch; all of them are in its errors file
    ingest_lease_seconds: float = 30.0  # a validation that is silent for so long is taken over
    # request bodies
    custom_id_bytes: int = 512
    json_depth: int = 64
    json_values: int = 1_000_000  # a parsed value weighs far more than its text
    messages: int = 10_000
    choices: int = 8  # `n`
    output_limit_tokens: int = 1 << 20  # largest `max_tokens`; the engine bounds it by its context
    stop_strings: int = 64
    stop_characters: int = 1_000
    schema_bytes: int = 64 << 10


DEFAULT = Policy()
