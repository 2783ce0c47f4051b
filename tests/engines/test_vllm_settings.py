"""What vLLM is told before it starts; vLLM itself is not needed for these."""

from __future__ import annotations

from pathlib import Path

from lanes.lane import Lane
from lanes.policy import DEFAULT
from workers.engines.choice import policy_for
from workers.engines.vllm.environment import vllm_environment
from workers.engines.vllm.settings import VllmSettings

BIND = "VLLM_CPU_OMP_THREADS_BIND"


def topology(folder: Path, siblings: dict[int, str]) -> Path:
    for cpu, text in siblings.items():
        (folder / f"cpu{cpu}" / "topology").mkdir(parents=True)
        (folder / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(text + "\n")
    return folder


def test_every_allowed_core_computes(tmp_path: Path) -> None:
    cores = topology(tmp_path, {0: "0", 1: "1", 2: "2"})
    assert vllm_environment({0, 2}, cores)[BIND] == "0,2"


def test_one_thread_of_each_core(tmp_path: Path) -> None:
    cores = topology(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
    assert vllm_environment({0, 1, 2, 3}, cores)[BIND] == "0,1"
    assert vllm_environment({1, 2}, cores)[BIND] == "1,2"


def test_many_cores_are_left_to_vllm(tmp_path: Path) -> None:
    assert BIND not in vllm_environment(set(range(16)), tmp_path)


def test_settings_left_open_are_not_passed_on() -> None:
    arguments = VllmSettings("/models/demo", "demo", max_num_seqs=8, extra=("--seed", "7")).arguments()
    assert arguments[:6] == ["--model", "/models/demo", "--served-model-name", "demo", "--max-num-seqs", "8"]
    assert "--max-model-len" not in arguments
    assert "--enforce-eager" not in arguments
    assert arguments[-2:] == ["--seed", "7"]


def test_the_cpu_defaults_are_explicit() -> None:
    arguments = VllmSettings.for_cpu("/models/demo", "demo").arguments()
    assert arguments[arguments.index("--kv-cache-memory-bytes") + 1].isdigit()
    assert "--enforce-eager" in arguments


def test_nothing_is_kept_for_p0_where_it_is_not_served() -> None:
    alone = policy_for([Lane.STANDARD, Lane.BULK]).step
    assert (alone.reserve_seats, alone.reserve_block_share) == (0, 0.0)
    assert alone.bulk_prefill_tokens > 1_000_000
    assert policy_for([Lane.INTERACTIVE, Lane.BULK]) == DEFAULT
