"""The log files of the parts stay bounded: one file in use and one older one for each part."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

LIMIT_BYTES = 16 * 2**20


def keep_small(log: Path, limit_bytes: int = LIMIT_BYTES) -> None:
    """Move what a log holds to `NAME.1` once it is over the limit.

    Copied and cut, not renamed: the part that writes it has the file open, in append mode, and
    goes on at the new end. Lines written between the two steps are lost.
    """
    if log.exists() and log.stat().st_size > limit_bytes:
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)


def last_lines(log: Path, count: int = 12) -> str:
    """The end of a log, for an error message."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 8192))
        text = file.read().decode(errors="replace")
    return "\n".join(text.strip().splitlines()[-count:])
