"""The processes of an engine: EngineCore, a child of this process, and the workers that it starts."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Iterable

import psutil

# What was killed is gone in milliseconds, unless a device driver holds it.
_GONE_SECONDS = 3.0


def loading_engine_cores() -> list[int]:
    """Numbers of the EngineCore processes of this process; while they load there is no other handle."""
    return [
        child.pid
        for child in multiprocessing.active_children()
        if child.name.startswith("EngineCore") and child.pid is not None
    ]


def family(parents: Iterable[int]) -> list[psutil.Process]:
    """These processes and all below them, as far as they still exist."""
    found = []
    for pid in parents:
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(pid)
            found += [parent, *parent.children(recursive=True)]
    return found


def end(processes: Iterable[psutil.Process]) -> None:
    """Kill what still runs and reap it. psutil checks the start time: a reused number is safe."""
    processes = list(processes)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=_GONE_SECONDS)
