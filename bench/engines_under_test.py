"""The engines that the benches on the engine itself compare, all from the product's own settings."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench.engine_side import EngineSide, engine_sides
from bench.phase import Backlog, Quiet
from db.settings import DEMO_MODEL, demo_model_folder
from lanes.policy import DEFAULT
from workers.engines.choice import vllm_settings
from workers.engines.vllm.settings import VllmSettings

OURS, STOCK, FCFS = "fairlane", "stock_priority", "stock_fcfs"
# More than the seats, so that a freed seat is taken in the same step: the backlog saturates.
CLIENTS_PER_SEAT = 1.25
SETTLE_S = 1.5  # vLLM's processes poll for a second after their last step: then the other side may go
OUTPUT_TOKENS = 64  # of every P2 answer, as in p2_throughput


def settings_of(name: str) -> VllmSettings:
    """The settings of one side: the same engine arguments and environment, another scheduler.

    Raises:
        FileNotFoundError: the demo model is not there.
    """
    model = demo_model_folder(os.environ)
    if not model.is_dir():
        raise FileNotFoundError(f"the demo model is not in {model}; `make setup` puts it there")
    ours = vllm_settings(str(model), DEMO_MODEL)
    if name == OURS:
        return ours
    stock = replace(ours, lanes="cap")  # the cap binds in the engine port, which the driver goes around
    if name == FCFS:
        return replace(stock, extra=(*stock.extra, "--scheduling-policy", "fcfs"))
    return stock


@contextmanager
def engines(*names: str) -> Iterator[list[EngineSide]]:
    """These sides, started together."""
    with (
        tempfile.TemporaryDirectory(prefix="fairlane-bench-") as folder,
        engine_sides({name: settings_of(name) for name in names}, Path(folder)) as sides,
    ):
        yield sides


def end_turn(side: EngineSide) -> None:
    """End the backlog and leave the machine to the next side."""
    side.do(Backlog(0))
    side.do(Quiet(SETTLE_S))


def clients() -> int:
    """P2 clients that keep every seat of an engine taken."""
    return int(CLIENTS_PER_SEAT * settings_of(OURS).max_num_seqs)


def about_engines(seed: int) -> dict[str, Any]:
    """What a reader needs in order to judge a figure."""
    settings = settings_of(OURS)
    return {
        "engine_arguments": settings.arguments()[4:],
        "model": settings.served_name,
        "policy": asdict(DEFAULT.step),
        "seed": seed,
        "p2_clients": clients(),
        "p2_output_tokens": OUTPUT_TOKENS,
    }
