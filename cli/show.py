"""Tables and JSON on standard output. What others wrote is shown without control characters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from openai.types import Batch
from openai.types.batch_error import BatchError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.standing import counts
from lanes.batch import BatchStatus

_PIPE_WIDTH = 200  # characters: without a terminal there is no width to fit into
_STYLES = {
    BatchStatus.COMPLETED: "green",
    BatchStatus.FAILED: "red",
    BatchStatus.EXPIRED: "red",
    BatchStatus.CANCELLED: "yellow",
    BatchStatus.CANCELLING: "yellow",
}


def print_json(value: object) -> None:
    """One JSON object on one line."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def as_json(batch: Batch) -> dict[str, object]:
    """The batch object as the API sent it."""
    return batch.to_dict(mode="json", warnings=False)


def print_table(table: Table) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    console.print(table)


def plain(text: object, limit: int | None = None) -> str:
    """Text in one line that cannot steer a terminal, cut to `limit` characters."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return shown if limit is None or len(shown) <= limit else f"{shown[: limit - 1]}…"


def batches_table(batches: Iterable[Batch]) -> Table:
    table = _table("batch", "status", "done", "failed", "total", "window", "created")
    table.columns[0].no_wrap = True
    for batch in batches:
        succeeded, failed, total = counts(batch)
        created = datetime.fromtimestamp(batch.created_at).astimezone()
        table.add_row(
            batch.id,
            Text(batch.status, style=_STYLES.get(BatchStatus(batch.status), "cyan")),
            str(succeeded + failed),
            str(failed) if failed else "-",
            str(total) if total else "-",
            plain(batch.completion_window),
            f"{created:%Y-%m-%d %H:%M:%S}",
        )
    return table


def refused_table(errors: Iterable[BatchError]) -> Table:
    """Lines of the input file that were refused."""
    table = _table("line", "code", "message", "param")
    table.columns[0].justify = "right"
    for error in errors:
        table.add_row(
            "-" if error.line is None else str(error.line),
            Text(plain(error.code or "-")),
            Text(plain(error.message or "-")),
            Text(plain(error.param or "-")),
        )
    return table


def failed_table(records: Sequence[dict[str, Any]]) -> Table:
    """Records of an error file: lines that were run or recorded, and did not succeed."""
    table = _table("line", "custom_id", "status", "code", "message")
    table.columns[0].justify = "right"
    for record in records:
        response = record.get("response") or {}
        error = record.get("error") or (response.get("body") or {}).get("error") or {}
        table.add_row(
            str(error.get("line") or "-"),  # known where the line itself was bad
            Text(plain(record.get("custom_id") or "-", 64)),
            str(response.get("status_code") or "-"),
            Text(plain(error.get("code") or error.get("type") or "-")),
            Text(plain(error.get("message") or "-", 300)),
        )
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
