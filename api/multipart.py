"""A multipart/form-data body as a stream of parts: nothing is kept, however large a part is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from api.refusals import MalformedForm

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

_MOST_PARTS = 16


@dataclass(frozen=True, slots=True)
class PartStart:
    """A part begins; the bytes that follow, until the next start, are its content."""

    name: str
    filename: str | None


async def read_parts(content_type: str, body: AsyncIterator[bytes]) -> AsyncIterator[PartStart | bytes]:
    """The parts of a form, as they arrive.

    Raises:
        MalformedForm: the body is no complete form.
    """
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise MalformedForm("Its Content-Type is not multipart/form-data with a boundary.")
    found = _Found()
    try:
        parser = MultipartParser(boundary, found.callbacks())
        async for chunk in body:
            parser.write(chunk)
            for event in found.take():
                yield event
    except (FormParserError, UnicodeDecodeError):
        raise MalformedForm("It breaks off or breaks the rules of RFC 7578.") from None
    if not found.complete:
        raise MalformedForm("It ends before its last boundary.")


class _Found:
    """Collects what the push parser reports during one write."""

    def __init__(self) -> None:
        self.complete = False
        self._events: list[PartStart | bytes] = []
        self._parts = 0
        self._name = bytearray()
        self._value = bytearray()
        self._disposition = b""

    def take(self) -> list[PartStart | bytes]:
        events, self._events = self._events, []
        return events

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._part_begin,
            "on_header_begin": self._header_begin,
            "on_header_field": lambda data, start, end: self._name.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": lambda data, start, end: self._events.append(data[start:end]),
            "on_end": self._end,
        }

    def _part_begin(self) -> None:
        self._disposition = b""
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise MalformedForm(f"It has more than {_MOST_PARTS} parts.")

    def _header_begin(self) -> None:
        self._name.clear()
        self._value.clear()

    def _header_end(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = bytes(self._value)

    def _headers_finished(self) -> None:
        kind, options = parse_options_header(self._disposition)
        name = options.get(b"name")
        if kind != b"form-data" or name is None:
            raise MalformedForm("A part has no name.")
        filename = options.get(b"filename")
        self._events.append(PartStart(name.decode(), None if filename is None else filename.decode()))

    def _end(self) -> None:
        self.complete = True
