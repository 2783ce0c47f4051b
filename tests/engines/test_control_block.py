"""The memory that a worker and its engine's scheduler share."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lanes.lane_stats import LaneCounters, LaneStats
from lanes.step_values import StepKnobs
from workers.engines.vllm.control_block import ControlBlock, ControlBlockName, _folder

KNOBS = StepKnobs(7, 1.5, 3, 0.25, 11, 12, 0.5)
STATS = LaneStats(7, 5, 2.5, 8, 30, 40, tuple(LaneCounters(n, 1, 2, 3, 4, 5.5, 6, 7, 8) for n in range(3)))

OWNER = """
import sys
from lanes.step_values import StepKnobs
from workers.engines.vllm.control_block import ControlBlock
block = ControlBlock.create(StepKnobs())
print(block.name.name, flush=True)
for line in sys.stdin: pass
"""


def path_of(name: ControlBlockName) -> Path:
    return _folder() / name.name


def test_both_sides_see_what_the_other_wrote() -> None:
    owner = ControlBlock.create(KNOBS)
    scheduler = ControlBlock.attach(owner.name)
    assert scheduler.knobs() == KNOBS
    assert owner.stats() == LaneStats()
    scheduler.write_stats(STATS)
    assert owner.stats() == STATS
    owner.write_knobs(StepKnobs(version=8))
    assert scheduler.knobs() == StepKnobs(version=8)
    scheduler.close()
    assert path_of(owner.name).exists()
    owner.close()
    owner.close()
    assert not path_of(owner.name).exists()


def test_a_record_that_is_being_written_is_not_read() -> None:
    owner = ControlBlock.create(KNOBS)
    scheduler = ControlBlock.attach(owner.name)
    assert scheduler.knobs() == KNOBS
    with path_of(owner.name).open("r+b") as file:
        file.seek(64)
        file.write((99).to_bytes(8, "little"))  # odd: a writer is at work
    assert scheduler.knobs() == KNOBS
    with path_of(owner.name).open("r+b") as file:
        file.seek(64)
        file.write((100).to_bytes(8, "little"))
        file.seek(64 + 16)
        file.write(b"\x05")  # a new sequence number with bytes that do not belong to it
    assert scheduler.knobs() == KNOBS
    scheduler.close()
    owner.close()


def test_a_block_of_another_layout_or_none_is_refused() -> None:
    owner = ControlBlock.create(KNOBS)
    with path_of(owner.name).open("r+b") as file:
        file.seek(8)
        file.write((2).to_bytes(4, "little"))
    with pytest.raises(ValueError, match="another layout"):
        ControlBlock.attach(owner.name)
    owner.close()
    with pytest.raises(FileNotFoundError):
        ControlBlock.attach(owner.name)


def test_the_next_start_removes_what_a_crash_left_and_nothing_in_use() -> None:
    crashed = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert crashed.stdout is not None
    left = path_of(ControlBlockName(crashed.stdout.readline().strip()))
    first = ControlBlock.create(KNOBS)
    assert left.exists()
    crashed.send_signal(signal.SIGKILL)
    crashed.communicate()
    second = ControlBlock.create(KNOBS)
    assert not left.exists()
    assert path_of(first.name).exists()
    assert path_of(first.name).stat().st_mode & 0o777 == 0o600
    first.close()
    second.close()


def test_a_process_that_merely_attached_may_end_without_removing_it() -> None:
    owner = ControlBlock.create(KNOBS)
    code = (
        "from workers.engines.vllm.control_block import *\n"
        f"print(ControlBlock.attach(ControlBlockName({owner.name.name!r})).knobs().version)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "7"
    assert ran.stderr == ""
    assert path_of(owner.name).exists()
    owner.close()
