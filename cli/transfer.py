"""Files to and from the API, in pieces: memory stays flat however large they are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import openai
from openai.types import FileObject
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

_PIECE_BYTES = 1 << 20
_LARGE_BYTES = 8 << 20  # a smaller file is gone before a bar can be read


def upload(client: openai.OpenAI, file: Path, console: Console) -> FileObject:
    """Store a file for batches; a large one with a progress bar on a terminal.

    Raises:
        OSError: the file cannot be read.
    """
    columns = (TextColumn("uploading"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with file.open("rb") as raw:
        size = file.stat().st_size
        quiet = size < _LARGE_BYTES or not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=quiet) as bar:
            reader = bar.wrap_file(raw, total=size)
            return client.files.create(file=(file.name, reader), purpose="batch")


def download(client: openai.OpenAI, file_id: str, target: Path) -> int:
    """Write a stored file to `target`; the bytes written. A plain file is replaced whole or not at all.

    Raises:
        OSError: the target cannot be written.
    """
    target = target.resolve()
    if target.exists() and not target.is_file():  # a device or a pipe
        with target.open("wb") as out:
            return _copy(client, file_id, out)
    draft = target.with_name(f"{target.name}.part")
    try:
        with draft.open("wb") as out:
            size = _copy(client, file_id, out)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return size


def print_file(client: openai.OpenAI, file_id: str) -> None:
    """Write a stored file to standard output."""
    _copy(client, file_id, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def lines(client: openai.OpenAI, file_id: str) -> Iterator[bytes]:
    """The lines of a stored file, one by one, split at "\\n" only: JSON text may hold other line breaks."""
    rest = b""
    with client.files.with_streaming_response.content(file_id) as answer:
        for piece in answer.iter_bytes(_PIECE_BYTES):
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
    if rest:
        yield rest


def _copy(client: openai.OpenAI, file_id: str, out: IO[bytes]) -> int:
    size = 0
    with client.files.with_streaming_response.content(file_id) as answer:
        for piece in answer.iter_bytes(_PIECE_BYTES):
            size += out.write(piece)
    return size
