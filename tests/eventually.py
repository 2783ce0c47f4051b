"""For tests of things that happen in other processes: waiting for them, and looking at them."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def eventually(condition: Callable[[], object], *, within_s: float = 30.0) -> None:
    """Return once `condition()` is true.

    Raises:
        AssertionError: it is still false after `within_s` seconds.
    """
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"still false after {within_s:g} s: {condition}")
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process of this number runs. One that ended and waits for its parent does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
