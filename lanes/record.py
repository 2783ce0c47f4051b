"""One line of a result file, in the shape that OpenAI's batch files have."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from lanes import failure
from lanes.ids import Prefix, spell

# Our own reasons; what ingest refused carries its text in the stored outcome.
_MESSAGES = {
    reason.code: reason.message
    for reason in (
        failure.ENGINE_ERROR,
        failure.BODY_LOST,
        failure.EXPIRED,
        failure.CANCELLED,
    )
}


def answered(job_id: UUID, custom_id: str | None, status: int, body: bytes) -> bytes:
    """A record of a request that the engine answered; `body` is JSON and is kept byte for byte."""
    head = json.dumps(
        {"id": spell(Prefix.BATCH_LINE, job_id), "custom_id": custom_id}, ensure_ascii=False
    ).encode()
    request_id = spell(Prefix.REQUEST, job_id).encode()
    return (
        head[:-1]
        + b', "response": {"status_code": %d, "request_id": "%s", "body": ' % (status, request_id)
        + body.replace(b"\n", b" ")  # insignificant white space only: JSON text escapes its own
        + b'}, "error": null}\n'
    )


def unanswered(job_id: UUID, custom_id: str | None, code: str, stored: bytes | None) -> bytes:
    """A record of a request that no engine answered; `stored` is the JSON error object, if kept."""
    record = {
        "id": spell(Prefix.BATCH_LINE, job_id),
        "custom_id": custom_id,
        "response": None,
        "error": error_object(code, stored),
    }
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def error_object(code: str, stored: bytes | None) -> dict[str, Any]:
    """Why no engine answered: the error object that was kept, or else our own words for the code."""
    if stored is None:
        return {"code": code, "message": _MESSAGES.get(code, code)}
    kept: dict[str, Any] = json.loads(stored)
    return kept
