"""Environment variables that vLLM reads while it is imported and while it starts its processes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

# Beyond this many cores a core kept free for the scheduler costs little: vLLM's own choice is fine.
_BIND_ALL_CORES_UP_TO = 8


def vllm_environment(
    cpus: Collection[int], topology: Path = Path("/sys/devices/system/cpu")
) -> dict[str, str]:
    """Variables for a process that may run on `cpus` (as from `os.sched_getaffinity`).

    They must be set before vLLM is imported. Nothing is fetched, nothing is reported home, and
    only errors are logged, on standard error. On few cores every core computes: left alone, vLLM
    on x86 keeps one core for its scheduler, which on two cores halves the throughput.
    """
    variables = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    }
    cores = _one_cpu_per_core(cpus, topology)
    if len(cores) <= _BIND_ALL_CORES_UP_TO:
        variables["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(str(cpu) for cpu in cores)
    return variables


def _one_cpu_per_core(cpus: Collection[int], topology: Path) -> list[int]:
    """The lowest usable CPU of each physical core: two threads of one core share its arithmetic units."""
    first: dict[str, int] = {}
    for cpu in sorted(cpus):
        siblings = topology / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        core = siblings.read_text().strip() if siblings.exists() else str(cpu)
        first.setdefault(core, cpu)
    return list(first.values())
