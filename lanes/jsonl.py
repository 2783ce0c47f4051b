"""From a byte stream to the physical lines of a JSONL file.

A line ends at a line feed byte and nowhere else: U+2028, U+2029 and U+0085 may stand inside a
JSON string. How the stream is cut into chunks never changes the lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"
_SLACK = len(_BOM) + len(b"\r")  # bytes of a line that do not count for its length
_BLANK = b" \t\r"


class Line(NamedTuple):
    """One line with text. `number` counts from 1 and counts blank lines too."""

    number: int
    data: bytes | None  # without its line end; None: longer than the limit, and dropped


class LineSplitter:
    """Feed it the chunks in order, then call `finish` once.

    It drops a byte order mark at the start of the file and one carriage return before a line
    feed, skips blank lines, and holds one line at most, never more than the limit of it.
    """

    def __init__(self, line_bytes: int) -> None:
        self._limit = line_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._number = 0

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that end within this chunk."""
        pieces = chunk.split(b"\n")
        self._keep(pieces[0])
        for piece in pieces[1:]:
            line = self._end()
            if line is not None:
                yield line
            self._keep(piece)

    def finish(self) -> Iterator[Line]:
        """The last line, when no line feed ends it."""
        line = self._end()
        if line is not None:
            yield line

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._limit + _SLACK:
            self._parts.append(piece)
        else:
            self._parts.clear()

    def _end(self) -> Line | None:
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        dropped = self._size > self._limit + _SLACK
        self._parts.clear()
        self._size = 0
        self._number += 1
        if dropped:
            return Line(self._number, None)
        if self._number == 1:
            data = data.removeprefix(_BOM)
        data = data.removesuffix(b"\r")
        if len(data) > self._limit:
            return Line(self._number, None)
        return Line(self._number, data) if data.strip(_BLANK) else None
