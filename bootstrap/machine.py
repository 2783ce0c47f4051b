"""What this machine is: can vLLM run here, and which of its builds fits?"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

MEMORY_MB = 6_000  # the engine's processes and the demo's servers together, with room to spare
GLIBC = (2, 28)
VLLM = "vLLM cannot run here: "


@dataclass(frozen=True)
class Machine:
    system: str  # "Linux"
    processor: str  # "x86_64"
    glibc: tuple[int, ...] | None  # None with another C library
    memory_mb: int
    nvidia: bool

    @property
    def build(self) -> str:
        """Which constraints file and which build of vLLM: "gpu" or "cpu"."""
        return "gpu" if self.nvidia else "cpu"


def this_machine() -> Machine:
    library, version = platform.libc_ver()
    return Machine(
        system=platform.system(),
        processor=platform.machine(),
        glibc=tuple(int(part) for part in version.split(".")) if library == "glibc" else None,
        memory_mb=memory_mb(Path("/sys/fs/cgroup/memory.max")),
        nvidia=has_nvidia_driver(),
    )


def memory_mb(limit_file: Path) -> int:
    """Memory of the machine, or of the container if that has a limit."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = limit_file.read_text().strip() if limit_file.exists() else "max"
    return min(total, int(limit) if limit.isdigit() else total) // 1_000_000


def has_nvidia_driver() -> bool:
    """The driver's own file, or (in some containers) a tool that can name a device."""
    if Path("/proc/driver/nvidia/version").exists():
        return True
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return False
    try:
        listed = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):  # a tool without a working driver behind it
        return False
    return listed.returncode == 0 and "GPU" in listed.stdout


def vllm_problem(machine: Machine) -> str | None:
    """Why vLLM's wheels cannot run here, as one sentence, or None."""
    if (machine.system, machine.processor) != ("Linux", "x86_64"):
        return (
            f"{VLLM}its builds are for Linux on x86-64, and this is {machine.system} on {machine.processor}."
        )
    if machine.glibc is None or machine.glibc < GLIBC:
        has = "another C library" if machine.glibc is None else "glibc " + ".".join(map(str, machine.glibc))
        return f"{VLLM}it needs glibc {GLIBC[0]}.{GLIBC[1]} or newer, and this system has {has}."
    if machine.memory_mb < MEMORY_MB:
        return (
            f"{VLLM}it needs {MEMORY_MB / 1000:.0f} GB of memory, "
            f"and this machine has {machine.memory_mb / 1000:.1f} GB."
        )
    return None
