"""From the chunks of an input file to pieces: what one segment holds, and its lines.

A piece is the unit of ingest: bounded in bytes and in lines, so that memory stays the same
however long the file is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lanes import estimate
from lanes.jsonl import Line, LineSplitter
from lanes.line import LineError, LineRules, ValidLine, check_line

WHOLE_FILE = 0  # the `line` of an error that no single line has

# Output tokens to expect for each choice: of a model, an estimated input, and a limit if one is given.
Predict = Callable[[str, int, int | None], int]


class PlacedLine(NamedTuple):
    """A valid line, and where its body lies in the piece."""

    line: int
    custom_id: str
    model: str
    byte_offset: int
    byte_length: int
    input_tokens: int  # estimated
    output_tokens: int  # predicted, for all its choices
    prefix: int  # these three as in ValidLine
    deadline_seconds: int | None
    rank: int


@dataclass(frozen=True, slots=True)
class Piece:
    bodies: bytearray  # one after another: the segment; handed over, not copied
    lines: tuple[PlacedLine, ...]
    errors: tuple[LineError, ...]


class PieceReader:
    """Feed it the chunks of one file in order, then take what `finish` gives.

    `full` turns true at the first line beyond the limit; nothing more need be read then.
    """

    def __init__(self, rules: LineRules, predict: Predict) -> None:
        self._rules = rules
        self._predict = predict
        self._policy = rules.policy
        self._splitter = LineSplitter(rules.policy.line_bytes)
        self._count = 0
        self.full = False
        self._begin()

    def feed(self, chunk: bytes) -> list[Piece]:
        """The pieces that this chunk completes; seldom more than one."""
        return list(self._pieces(self._splitter.feed(chunk)))

    def finish(self) -> list[Piece]:
        """The last piece, with the errors that concern the file as a whole."""
        pieces = list(self._pieces(self._splitter.finish()))
        if self._count == 0:
            message = "The file has no requests. Write one JSON object on each line."
            self._errors.append(LineError(WHOLE_FILE, "empty_batch", message, None))
        return [*pieces, self._take()]

    def _pieces(self, lines: Iterable[Line]) -> Iterator[Piece]:
        for line in lines:
            if self.full:
                return
            self._count += 1
            if self._count > self._policy.file_lines:
                self.full = True
                message = f"A batch may have {self._policy.file_lines:,} lines. Split the file."
                self._errors.append(LineError(line.number, "too_many_tasks", message, None))
                return
            checked = check_line(line, self._rules)
            if isinstance(checked, LineError):
                self._errors.append(checked)
            else:
                self._place(checked)
            if (
                len(self._bodies) >= self._policy.segment_bytes
                or len(self._lines) + len(self._errors) >= self._policy.segment_lines
            ):
                yield self._take()

    def _place(self, valid: ValidLine) -> None:
        length = len(valid.body)
        tokens = estimate.input_tokens(length)
        if self._rules.endpoint == "/v1/embeddings":
            output = 0
        else:
            output = valid.choices * self._predict(valid.model, tokens, valid.output_limit)
        self._lines.append(
            PlacedLine(
                valid.line,
                valid.custom_id,
                valid.model,
                len(self._bodies),
                length,
                tokens,
                output,
                valid.prefix,
                valid.deadline_seconds,
                valid.rank,
            )
        )
        self._bodies += valid.body

    def _begin(self) -> None:
        self._bodies = bytearray()
        self._lines: list[PlacedLine] = []
        self._errors: list[LineError] = []

    def _take(self) -> Piece:
        piece = Piece(self._bodies, tuple(self._lines), tuple(self._errors))
        self._begin()
        return piece
