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
    # claims
    slice_jobs: int = 64  # the most that one claim takes
    accounts_per_seat: int = 4  # active flows looked at, per free seat
    poll_seconds: float = 1.0  # a claim loop looks this often without a doorbell, jittered
    # leases: a worker that misses `lease_seconds / beat_seconds` beats has lost its jobs
    lease_seconds: float = 12.0
    beat_seconds: float = 2.0
    # retries
    attempts: int = 3
    backoff_seconds: float = 1.0
    backoff_limit_seconds: float = 60.0
    # queueing
    bucket_seconds: int = 300  # width of a deadline bucket
    output_guess_tokens: int = 256  # predicted output where nothing else is known
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
