"""Following a batch to its end: a bar on a terminal, else a plain line now and then."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import openai
from openai.types import Batch
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from cli.pace import Pace, duration
from cli.standing import counts, has_ended, output_tokens, standing

_LOOK_EVERY_S = 1.0
_PLAIN_EVERY_S = 10.0
_OUTAGE_S = 60.0  # an API that restarts is waited for this long

Note = Callable[[Batch], str]  # what is being waited for just now; "" for nothing special


def watch(client: openai.OpenAI, batch_id: str, console: Console, note: Note = lambda _: "") -> Batch:
    """Show the batch until it has ended.

    Raises:
        openai.APIError: the API refuses, or was away for a minute.
    """
    pace = Pace()
    batch = client.batches.retrieve(batch_id)
    with _view(console) as view:
        while True:
            succeeded, failed, _ = counts(batch)
            pace.look(time.monotonic(), succeeded + failed, output_tokens(batch))
            view.show(batch, ", ".join(part for part in (standing(batch, pace), note(batch)) if part))
            if has_ended(batch):
                return batch
            time.sleep(_LOOK_EVERY_S)
            batch = _look_again(client, batch, view)


def _look_again(client: openai.OpenAI, batch: Batch, view: _View) -> Batch:
    """The batch as it is now, or as it was if the API is away; the client's own retries come first."""
    away_since = time.monotonic()
    while True:
        try:
            return client.batches.retrieve(batch.id)
        except (openai.APIConnectionError, openai.InternalServerError):
            away_s = time.monotonic() - away_since
            if away_s > _OUTAGE_S:
                raise
            view.show(batch, f"the API has not answered for {duration(away_s)}; the batch is safe")
            time.sleep(_LOOK_EVERY_S)


class _View(Protocol):
    def show(self, batch: Batch, said: str) -> None: ...


@contextlib.contextmanager
def _view(console: Console) -> Iterator[_View]:
    if not console.is_terminal:
        yield _Plain(console)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[said]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bar(progress)


class _Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, said="")

    def show(self, batch: Batch, said: str) -> None:
        succeeded, failed, total = counts(batch)
        self._progress.update(
            self._task, description=batch.status, total=total or None, completed=succeeded + failed, said=said
        )


class _Plain:
    """A line when the status changes, and one in ten seconds while something else does."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = ""
        self._said = ""
        self._at_s = 0.0

    def show(self, batch: Batch, said: str) -> None:
        now_s = time.monotonic()
        due = said != self._said and now_s - self._at_s >= _PLAIN_EVERY_S
        if batch.status != self._status or due:
            self._status, self._said, self._at_s = batch.status, said, now_s
            self._console.print(f"{batch.status:<12} {said}".rstrip(), markup=False, soft_wrap=True)
