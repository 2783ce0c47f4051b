"""How an engine's process is told which scheduler to record, and where to."""

from __future__ import annotations

BASE = "FAIRLANE_BENCH_SCHEDULER"  # the class that is recorded
FILE = "FAIRLANE_BENCH_STEPS"
RECORDER = "bench.step_recorder.RecordedScheduler"
