"""vLLM's side of p2_throughput: `run_batch` in a process of its own, with the product's environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.facts import ROOT
from bench.sample import Sample
from workers.engines.vllm.environment import vllm_environment
from workers.engines.vllm.settings import VllmSettings

_LIMIT_SECONDS = 1800


def run_vllm(settings: VllmSettings, inputs: Sequence[Path], folder: Path) -> list[Sample]:
    """Load once, run every file in turn; one sample a file.

    Raises:
        subprocess.CalledProcessError: vLLM ended with an error, which it wrote to `folder`/run_batch.log.
        ValueError: an answer is missing or is an error.
    """
    report = folder / "run_batch.json"
    command = [sys.executable, "-m", "bench.run_batch_driver", str(report), *map(str, inputs), "--"]
    with (folder / "run_batch.log").open("ab") as log:
        subprocess.run(
            [*command, *settings.arguments()],
            cwd=ROOT,
            env={**os.environ, **vllm_environment(os.sched_getaffinity(0))},
            stdout=log,
            stderr=log,
            check=True,
            timeout=_LIMIT_SECONDS,
        )
    seconds = json.loads(report.read_text())
    return [Sample(_output_tokens(path), spent) for path, spent in zip(inputs, seconds, strict=True)]


def _output_tokens(path: Path) -> int:
    """Output tokens of all answers to a batch file; every line must have one."""
    answers = [json.loads(line) for line in Path(f"{path}.out").read_text().splitlines()]
    asked = len(path.read_text().splitlines())
    good = [answer for answer in answers if answer["error"] is None]
    if len(good) != asked:
        raise ValueError(f"run_batch answered {len(good)} of {asked} lines of {path.name}")
    return sum(answer["response"]["body"]["usage"]["completion_tokens"] for answer in good)
