"""The two result files of a batch while they are written: output and errors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from db.finalise import EndingBatch, Record, WrittenFile
from lanes import record as wire
from lanes.ids import Prefix, spell
from lanes.job import JobState

if TYPE_CHECKING:
    from obstore import AsyncWritableFile

    from db.objects import Objects

_LARGEST_WRITE_BYTES = 8 << 20  # large answers are not gathered for a whole page
_TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")


class _Part:
    """One of the two files while it is written."""

    def __init__(self, batch: EndingBatch, name: str) -> None:
        self.key = f"files/{batch.id.hex}/{batch.fence}/{name}"
        self._filename = f"{spell(Prefix.BATCH, batch.id)}_{name}.jsonl"
        self._bytes = 0
        self._page = bytearray()
        self.lines = 0

    def add(self, line: bytes) -> None:
        self._page += line
        self.lines += 1

    @property
    def pending_bytes(self) -> int:
        return len(self._page)

    async def write(self, handle: AsyncWritableFile) -> None:
        """Write what was added since the last call."""
        page, self._page = bytes(self._page), bytearray()
        await handle.write(page)
        self._bytes += len(page)

    def written(self) -> WrittenFile | None:
        return WrittenFile(self.key, self._filename, self._bytes, self.lines) if self.lines else None


class BatchFiles:
    """The output and error file of one batch, and the sums over their records."""

    def __init__(self, objects: Objects, batch: EndingBatch) -> None:
        self._objects = objects
        self._stack = AsyncExitStack()
        self._handles: dict[_Part, AsyncWritableFile] = {}
        self.output = _Part(batch, "output")
        self.errors = _Part(batch, "errors")
        self.late = 0  # lines that the end of the batch's window stopped
        self.sums = dict.fromkeys(("succeeded", "unsuccessful", *_TOKENS), 0)

    async def __aenter__(self) -> None:
        for part in (self.output, self.errors):
            self._handles[part] = await self._stack.enter_async_context(self._objects.writer(part.key))

    async def __aexit__(self, *failed: object) -> None:
        await self._stack.__aexit__(*failed)  # type: ignore[arg-type]  # the three of the protocol

    @property
    def lines(self) -> int:
        return self.output.lines + self.errors.lines

    async def add(self, page: Sequence[Record]) -> None:
        """Write each record where it belongs and count it; mostly one write a file and page."""
        for record in page:
            succeeded = record.state == JobState.SUCCEEDED
            part = self.output if succeeded else self.errors
            part.add(await self._line(record))
            if part.pending_bytes > _LARGEST_WRITE_BYTES:
                await part.write(self._handles[part])
            self.late += record.late
            self.sums["succeeded" if succeeded else "unsuccessful"] += 1
            for name in _TOKENS:
                self.sums[name] += getattr(record, name)
        for part, handle in self._handles.items():
            await part.write(handle)

    async def _line(self, record: Record) -> bytes:
        body = record.body
        if record.object_key is not None and record.byte_length is not None:
            [body] = await self._objects.read_ranges(record.object_key, [(0, record.byte_length)])
        if record.status_code is None:
            return wire.unanswered(record.job_id, record.custom_id, record.error_code or "", body)
        return wire.answered(record.job_id, record.custom_id, record.status_code, body or b"null")
