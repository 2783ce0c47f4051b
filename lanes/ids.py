"""Public ids: a prefix that says what it is, and the row's UUID in hexadecimal.

UUIDs are made by the database (uuidv7), so ids sort by creation; this module only spells them.
"""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID


class Prefix(StrEnum):
    FILE = "file-"
    BATCH = "batch_"
    BATCH_LINE = "batch_req_"
    REQUEST = "req_"
    JOB = "job_"


def spell(prefix: Prefix, uuid: UUID) -> str:
    """The public id of a row."""
    return f"{prefix}{uuid.hex}"


def parse(prefix: Prefix, text: str) -> UUID | None:
    """The UUID behind a public id, or None when the text is not an id of that kind."""
    digits = text.removeprefix(prefix)
    if digits == text or len(digits) != 32 or not set(digits) <= set("0123456789abcdef"):
        return None
    return UUID(hex=digits)
