"""P2 output tokens/s of Fairlane over those of vLLM's own `run_batch`, on equal terms.

Both sides get the same questions, engine arguments and environment, and take turns within one run,
each alone on the machine. Each turn loads the engine, runs one small batch to warm up, then the
measured ones. A measured batch counts from the first request in the engine to the last record
kept: for `run_batch` the finished output file, for Fairlane the last outcome committed.
"""

from __future__ import annotations

import os
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.fairlane_side import run_fairlane
from bench.gsm8k import questions, write_batch
from bench.result import Bar, Result, spread_of
from bench.run_batch_side import run_vllm
from bench.sample import Sample
from bench.scratch import scratch_servers
from db.settings import DEMO_MODEL, demo_model_folder
from workers.engines.choice import vllm_settings

BARS = {"ratio": Bar(1.00, 1.05)}
OUTPUT_TOKENS = 64
WARM_UP_LINES = 16


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int
    batches_each: int  # measured batches of each side in a round
    lines: int  # of one measured batch


SCALES = {"quick": Scale(rounds=2, batches_each=1, lines=192), "full": Scale(3, 2, 600)}


def run(scale: str) -> Result:
    """Measure. Needs the demo model where `make setup` puts it.

    Raises:
        FileNotFoundError: the model is not there.
    """
    model = demo_model_folder(os.environ)
    if not model.is_dir():
        raise FileNotFoundError(f"the demo model is not in {model}; `make setup` puts it there")
    settings = vllm_settings(str(model), DEMO_MODEL)
    size = SCALES[scale]
    vllm: list[Sample] = []
    fairlane: list[Sample] = []
    with scratch_servers() as (folder, servers):
        inputs = _inputs(size, folder)
        for number in range(1, size.rounds + 1):
            vllm += _told(f"run_batch, round {number}", run_vllm(settings, inputs, folder)[1:])
            fairlane += _told(
                f"fairlane, round {number}", run_fairlane(settings, inputs, folder, servers)[1:]
            )
    rates = {"fairlane": [s.rate for s in fairlane], "run_batch": [s.rate for s in vllm]}
    ratio = statistics.median(rates["fairlane"]) / statistics.median(rates["run_batch"])
    return Result(
        bench="p2_throughput",
        figures={"ratio": round(ratio, 3)},
        spread={f"{side}_tokens_per_s": spread_of(values) for side, values in rates.items()},
        about={
            "engine_arguments": settings.arguments()[4:],
            "model": settings.served_name,
            "seed": "none: greedy decoding, fixed questions",
            "output_tokens": OUTPUT_TOKENS,
            **asdict(size),
        },
    )


def _inputs(size: Scale, folder: Path) -> list[Path]:
    """The warm-up file, then the measured ones; no question twice, so no side meets a warm prefix."""
    texts = questions()
    files, start = [], 0
    for number in range(size.batches_each + 1):
        lines = size.lines if number else WARM_UP_LINES
        path = folder / f"batch{number}.jsonl"
        part = texts[start : start + lines]
        files.append(write_batch(path, part, model=DEMO_MODEL, output_tokens=OUTPUT_TOKENS))
        start += lines
    return files


def _told(side: str, samples: list[Sample]) -> list[Sample]:
    for sample in samples:
        print(f"{side}: {sample.tokens} tokens in {sample.seconds:.1f} s", file=sys.stderr, flush=True)
    return samples
