"""One side of a bench on the engine itself: a driver process, and the steps that its engine recorded."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.facts import ROOT
from bench.phase import Phase, Report
from bench.steps import Step, read_steps
from lanes.sim.values import SimShape
from workers.engines.vllm.environment import vllm_environment
from workers.engines.vllm.settings import VllmSettings

_START_SECONDS = 300
_STOP_SECONDS = 60
_PHASE_SECONDS = 900


class EngineSide:
    """An engine that answers."""

    def __init__(self, name: str, shape: SimShape, connection: Connection, steps: Path) -> None:
        self.name = name
        self.shape = shape
        self._connection = connection
        self._steps = steps

    def do(self, phase: Phase) -> Report:
        """Have one phase carried out, to its end.

        Raises:
            TimeoutError: it took far too long.
            EOFError: the driver ended; it says why in its log.
        """
        self._connection.send(phase)
        report: Report = _receive(self._connection, _PHASE_SECONDS, f"{self.name}: {phase}")
        return report

    def steps(self) -> list[Step]:
        """Every step until now."""
        return read_steps(self._steps)


@contextmanager
def engine_sides(settings: dict[str, VllmSettings], folder: Path) -> Iterator[list[EngineSide]]:
    """Start an engine for each name, all at once, and stop them at the end.

    Their logs are `folder`/NAME.log. While one works the others have nothing to do and stand still.
    """
    with ExitStack() as stack:
        started = [(name, stack.enter_context(_driver(name, s, folder))) for name, s in settings.items()]
        sides = []
        for name, connection in started:
            shape = _receive(connection, _START_SECONDS, f"{name}: start")
            sides.append(EngineSide(name, shape, connection, _steps_file(folder, name)))
        yield sides


@contextmanager
def _driver(name: str, settings: VllmSettings, folder: Path) -> Iterator[Connection]:
    ours, its = multiprocessing.Pipe()
    steps = _steps_file(folder, name)
    steps.touch()
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.engine_driver", str(its.fileno()), str(steps)],
            cwd=ROOT,
            env={**os.environ, **vllm_environment(os.sched_getaffinity(0))},
            stdout=log,
            stderr=log,
            pass_fds=[its.fileno()],
            # In a session of its own: an interrupt of the bench must not reach the engine's processes.
            start_new_session=True,
        )
    its.close()
    try:
        ours.send(settings)
        yield ours
    except EOFError:
        sys.stderr.write((folder / f"{name}.log").read_text()[-4000:])
        raise
    finally:
        ours.close()  # which tells the driver to stop its engine and end
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _receive(connection: Connection, seconds: float, what: str) -> Any:
    if not connection.poll(seconds):
        raise TimeoutError(f"{what} took more than {seconds:g} s")
    return connection.recv()


def _steps_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.steps"
