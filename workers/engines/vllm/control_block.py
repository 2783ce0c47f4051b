"""Shared memory between a worker and the scheduler of its engine: knobs in, counters out.

A file of one page in memory, mapped by both. A header (magic, layout), then two records, each with
one writer: the worker writes the knobs, the scheduler the counters. A record starts with a sequence
number that is odd while it is written, and a checksum, since Python gives no memory barriers.

It is no `multiprocessing.SharedMemory`, whose resource tracker (until Python 3.13) removes a block
as soon as any process that merely attached it ends. The worker holds a lock on the file: a file
whose lock can be had was left by a crash, and whoever creates a block next removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import tempfile
import uuid
import zlib
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from lanes.lane_stats import LaneCounters, LaneStats
from lanes.step_values import StepKnobs

_PREFIX = "fairlane-lanes-"
_HEADER = struct.Struct("<8sI4x")
_MAGIC, _LAYOUT = b"fairlane", 1
_RECORD_HEAD = struct.Struct("<QI4x")  # sequence number, checksum
_KNOBS = struct.Struct("<QdQdQQd")  # the fields of StepKnobs in their order
_ENGINE = struct.Struct("<QQdQQQ")  # the fields of LaneStats before the lanes
_LANE = struct.Struct("<QQQQQdQQQ")  # the fields of LaneCounters
_LANES = 3
_TRIES = 10_000  # a write takes microseconds
_KNOBS_AT, _STATS_AT, _SIZE = 64, 256, 4096


@dataclass(frozen=True)
class ControlBlockName:
    """The name of a block as vLLM's `additional_config`.

    vLLM hashes that into the name of its compile cache. The block changes nothing that is compiled,
    so its hash is the same for all: a dictionary would make every start compile again.
    """

    name: str

    def compute_hash(self) -> str:
        return "fairlane"


class ControlBlock:
    """One end of a block."""

    def __init__(self, path: Path, descriptor: int, *, owner: bool) -> None:
        self._path = path
        self._descriptor = descriptor
        self._owner = owner
        self._memory = mmap.mmap(descriptor, _SIZE)
        self._seen_sequence = -1
        self._knobs = StepKnobs(version=0)
        self._stats = LaneStats()

    @classmethod
    def create(cls, knobs: StepKnobs) -> ControlBlock:
        """A new block with these knobs; blocks that crashed workers left are removed."""
        folder = _folder()
        _remove_abandoned(folder)
        while True:
            path = folder / f"{_PREFIX}{uuid.uuid4().hex}"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.exists():
                break
            os.close(descriptor)  # another start took it for abandoned before it was locked
        os.ftruncate(descriptor, _SIZE)
        block = cls(path, descriptor, owner=True)
        block.write_knobs(knobs)
        block.write_stats(LaneStats())
        _HEADER.pack_into(block._memory, 0, _MAGIC, _LAYOUT)
        return block

    @classmethod
    def attach(cls, name: ControlBlockName) -> ControlBlock:
        """The block that a worker created.

        Raises:
            OSError: there is none, or it belongs to somebody else.
            ValueError: it has another layout.
        """
        path = _folder() / name.name
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_size != _SIZE:
            os.close(descriptor)
            raise PermissionError(f"{path} is not a control block of this user")
        block = cls(path, descriptor, owner=False)
        if _HEADER.unpack_from(block._memory, 0) != (_MAGIC, _LAYOUT):
            block.close()
            raise ValueError(f"{path} has another layout than this version of Fairlane")
        return block

    @property
    def name(self) -> ControlBlockName:
        return ControlBlockName(self._path.name)

    def write_knobs(self, knobs: StepKnobs) -> None:
        """Set the knobs of the next step that starts; only the owner may."""
        self._write(_KNOBS_AT, _KNOBS.pack(*astuple(knobs)))

    def knobs(self) -> StepKnobs:
        """The knobs last written; those before while they are just being written."""
        sequence = _RECORD_HEAD.unpack_from(self._memory, _KNOBS_AT)[0]
        if sequence != self._seen_sequence:
            payload = self._read(_KNOBS_AT, _KNOBS.size)
            if payload is not None:
                self._knobs = StepKnobs(*_KNOBS.unpack(payload))
                self._seen_sequence = sequence
        return self._knobs

    def write_stats(self, stats: LaneStats) -> None:
        """Publish counters; only the scheduler does."""
        engine: tuple[Any, ...] = (
            stats.knobs_version,
            stats.steps,
            stats.last_step_ms,
            stats.seats,
            stats.free_blocks,
            stats.total_blocks,
        )
        lanes = b"".join(_LANE.pack(*astuple(lane)) for lane in stats.lanes)
        self._write(_STATS_AT, _ENGINE.pack(*engine) + lanes)

    def stats(self) -> LaneStats:
        """The counters last published; those read before if a scheduler died while it wrote."""
        for _ in range(_TRIES):
            payload = self._read(_STATS_AT, _ENGINE.size + _LANES * _LANE.size)
            if payload is not None:
                lanes = tuple(LaneCounters(*row) for row in _LANE.iter_unpack(payload[_ENGINE.size :]))
                version, steps, step_ms, seats, free, total = _ENGINE.unpack_from(payload)
                self._stats = LaneStats(version, steps, step_ms, seats, free, total, lanes)
                break
        return self._stats

    def close(self) -> None:
        """Let go; the owner also removes the block. Safe to call twice."""
        if self._memory.closed:
            return
        self._memory.close()
        if self._owner:
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def _write(self, at: int, payload: bytes) -> None:
        sequence = _RECORD_HEAD.unpack_from(self._memory, at)[0] | 1
        _RECORD_HEAD.pack_into(self._memory, at, sequence, 0)
        self._memory[at + _RECORD_HEAD.size : at + _RECORD_HEAD.size + len(payload)] = payload
        _RECORD_HEAD.pack_into(self._memory, at, sequence + 1, zlib.crc32(payload))

    def _read(self, at: int, size: int) -> bytes | None:
        """One record, or None if it was just being written."""
        sequence, checksum = _RECORD_HEAD.unpack_from(self._memory, at)
        payload = self._memory[at + _RECORD_HEAD.size : at + _RECORD_HEAD.size + size]
        torn = sequence % 2 or _RECORD_HEAD.unpack_from(self._memory, at) != (sequence, checksum)
        return None if torn or zlib.crc32(payload) != checksum else payload


def _folder() -> Path:
    memory = Path("/dev/shm")  # noqa: S108 (owner, mode and links are checked)
    return memory if memory.is_dir() else Path(tempfile.gettempdir())


def _remove_abandoned(folder: Path) -> None:
    for path in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # not ours, in use, or gone already
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(descriptor)
