"""Where vLLM cannot run, the reason is the first thing that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap.machine import MEMORY_MB, Machine, memory_mb, this_machine, vllm_problem

GOOD = Machine(system="Linux", processor="x86_64", glibc=(2, 28), memory_mb=MEMORY_MB, nvidia=False)


def test_the_oldest_supported_machine_will_do() -> None:
    assert vllm_problem(GOOD) is None


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (replace(GOOD, system="Darwin", processor="arm64"), "Darwin on arm64"),
        (replace(GOOD, glibc=(2, 27)), "glibc 2.27"),
        (replace(GOOD, glibc=None), "another C library"),
        (replace(GOOD, memory_mb=3_900), "3.9 GB"),
    ],
)
def test_what_is_missing_is_named(machine: Machine, words: str) -> None:
    sentence = vllm_problem(machine)
    assert sentence is not None
    assert words in sentence


def test_a_driver_chooses_the_build() -> None:
    assert replace(GOOD, nvidia=True).build == "gpu"
    assert GOOD.build == "cpu"


def test_a_container_has_the_memory_of_its_limit(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    all_of_it = memory_mb(limit)
    assert all_of_it == this_machine().memory_mb or Path("/sys/fs/cgroup/memory.max").exists()
    limit.write_text("max\n")
    assert memory_mb(limit) == all_of_it
    limit.write_text("50000000\n")
    assert memory_mb(limit) == 50
