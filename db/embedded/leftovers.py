"""Servers of an earlier run that still use a data folder.

Two servers on one folder would destroy it. A pid file is no proof: it may be stale, and its number
may belong to another process by now. So the processes themselves are looked at.
"""

from __future__ import annotations

from pathlib import Path

import psutil


def servers_of(folder: Path, names: frozenset[str]) -> list[psutil.Process]:
    """The running processes with one of these names that work on `folder`.

    A server's work folder is its data folder, but the system may hide that of another account
    (root without every capability); the arguments of a first process, which all may read, name it too.
    """
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() in names and _works_on(process, str(folder)):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def _works_on(process: psutil.Process, folder: str) -> bool:
    if folder in process.cmdline():
        return True
    try:
        return bool(process.cwd() == folder)
    except psutil.AccessDenied:
        return False
