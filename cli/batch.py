"""`fairlane batch`: submit a file, follow it, fetch what came of it. Everything goes through the API."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Annotated, Any, cast

import openai
import typer
from openai.types import Batch
from rich.console import Console

from cli import show, transfer
from cli.client import api_client, api_errors
from cli.exits import BAD_INPUT, FAILED, NOT_READY, fail
from cli.standing import (
    counts,
    errors_file_id,
    errors_total,
    exit_code,
    has_ended,
    summary,
)
from cli.watch import watch
from lanes.batch import BatchStatus, completion_window

_SHOWN_RECORDS = 50
_INTERRUPTED = 130  # as shells say it for Ctrl-C

_EXITS = (
    "Exit codes: 0 done, and where a batch was waited for, every line succeeded; 1 it ended with failed "
    "lines, expired or cancelled; 2 wrong command line or bad input; 3 the API cannot be reached or "
    "refuses the key; 4 nothing to fetch yet."
)

batch_app = typer.Typer(help="Run files of requests.", no_args_is_help=True, epilog=_EXITS)


def _id(text: str) -> str:
    if not text.strip("./ "):
        raise typer.BadParameter("give the id of a batch, such as batch_0198c2...")
    return text


BatchId = Annotated[str, typer.Argument(metavar="ID", callback=_id, help="Id of the batch.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    app.add_typer(batch_app, name="batch")


@batch_app.command("submit", epilog=_EXITS)
def submit(
    file: Annotated[Path, typer.Argument(help="File of requests, one JSON object a line (.jsonl).")],
    window: Annotated[
        str, typer.Option(help="Time in which it must be done: a whole number and s, m, h or d.")
    ] = "24h",
    endpoint: Annotated[str, typer.Option(help="The url that every line names.")] = "/v1/chat/completions",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Run the good lines; bad ones go to the error file.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end.")] = False,
    as_json: Json = False,
) -> None:
    """Upload a file and run it as a batch. Prints the batch's id."""
    if completion_window(window) is None:
        fail(f"{window!r} is no window: give a whole number and s, m, h or d, such as 24h", BAD_INPUT)
    client = api_client(os.environ)
    console = Console(stderr=True, highlight=False)
    with api_errors(client):
        try:
            stored = transfer.upload(client, file, console)
        except OSError as error:
            fail(f"cannot read {file}: {error.strerror}", BAD_INPUT)
        batch = create(client, stored.id, window=window, endpoint=endpoint, skip_bad=skip_bad)
    if not (as_json and wait):
        _print(batch, as_json)
    if wait:
        _follow(client, batch.id, console, as_json)
    elif not as_json:
        _say(console, f"`fairlane batch watch {batch.id}` shows how far it is")


def create(
    client: openai.OpenAI,
    file_id: str,
    *,
    window: str = "24h",
    endpoint: str = "/v1/chat/completions",
    skip_bad: bool = False,
) -> Batch:
    """Make a batch of a stored file."""
    return client.batches.create(
        input_file_id=file_id,
        endpoint=cast("Any", endpoint),  # the API itself says which ones it knows
        completion_window=cast("Any", window),  # any window is our extension
        extra_body={"on_invalid_line": "record"} if skip_bad else None,
    )


@batch_app.command("watch", epilog=_EXITS)
def watch_command(batch_id: BatchId, as_json: Json = False) -> None:
    """Follow a batch to its end: how much is done, how fast, how long it still takes."""
    client = api_client(os.environ)
    _follow(client, batch_id, Console(stderr=True, highlight=False), as_json)


@batch_app.command("results", epilog=_EXITS)
def results(
    batch_id: BatchId,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write; - is standard output.")
    ] = Path("-"),
    as_json: Annotated[
        bool, typer.Option("--json", help="With --output, say as JSON what was written.")
    ] = False,
) -> None:
    """Fetch the answers of a batch that has ended: one JSON record a line, in the order of the file."""
    client = api_client(os.environ)
    console = Console(stderr=True, highlight=False)
    with api_errors(client):
        batch = client.batches.retrieve(batch_id)
        if not has_ended(batch):
            fail(
                f"{batch.id} is {batch.status}; its results come when it ends; "
                f"`fairlane batch watch {batch.id}` shows how far it is",
                NOT_READY,
            )
        if not batch.output_file_id:
            fail(
                f"{batch.id} {batch.status} without a single answer; see `fairlane batch errors {batch.id}`",
                exit_code(batch) or FAILED,
            )
        _fetch(client, batch.output_file_id, output, console, as_json)
    if counts(batch)[1]:
        _say(console, f"{counts(batch)[1]} lines have no answer; see `fairlane batch errors {batch.id}`")


@batch_app.command("errors", epilog=_EXITS)
def errors(
    batch_id: BatchId,
    everything: Annotated[
        bool, typer.Option("--all", help="Fetch the whole list, one JSON object a line.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what went wrong: lines that were refused, or lines that were run and failed."""
    client = api_client(os.environ)
    with api_errors(client):
        batch = client.batches.retrieve(batch_id)
        whole = batch.error_file_id or errors_file_id(batch)
        if everything and whole:
            transfer.print_file(client, whole)
        elif batch.error_file_id:
            found = itertools.islice(transfer.lines(client, batch.error_file_id), _SHOWN_RECORDS)
            _print_failed([json.loads(line) for line in found], counts(batch)[1], as_json)
        else:
            _print_refused(batch, as_json)


@batch_app.command("cancel", epilog=_EXITS)
def cancel(batch_id: BatchId, as_json: Json = False) -> None:
    """Stop a batch. What is answered already stays and is among its results."""
    client = api_client(os.environ)
    with api_errors(client):
        batch = client.batches.cancel(batch_id)
    if as_json:
        show.print_json(show.as_json(batch))
    else:
        print(f"{batch.id} {batch.status}")


@batch_app.command("list", epilog=_EXITS)
def list_command(
    limit: Annotated[int, typer.Option(min=1, help="How many to show, the newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """List batches."""
    client = api_client(os.environ)
    with api_errors(client):
        found = list(itertools.islice(client.batches.list(limit=min(limit, 100)), limit))
    if as_json:
        show.print_json({"object": "list", "data": [show.as_json(batch) for batch in found]})
    elif found:
        show.print_table(show.batches_table(found))
    else:
        _say(
            Console(stderr=True, highlight=False),
            "there are no batches yet; `fairlane batch submit FILE` makes one",
        )


def _follow(client: openai.OpenAI, batch_id: str, console: Console, as_json: bool) -> None:
    """Show a batch until it ends, and end with its exit code."""
    try:
        with api_errors(client):
            batch = watch(client, batch_id, console)
    except KeyboardInterrupt:
        _say(console, f"{batch_id} goes on; `fairlane batch watch {batch_id}` shows it again")
        raise typer.Exit(_INTERRUPTED) from None
    if as_json:
        show.print_json(show.as_json(batch))
    _say(console, summary(batch))
    raise typer.Exit(exit_code(batch))


def _fetch(client: openai.OpenAI, file_id: str, output: Path, console: Console, as_json: bool) -> None:
    if str(output) == "-":
        transfer.print_file(client, file_id)
        return
    try:
        size = transfer.download(client, file_id, output)
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}", BAD_INPUT)
    if as_json:
        show.print_json({"output_file_id": file_id, "path": str(output.resolve()), "bytes": size})
    else:
        _say(console, f"{size} bytes written to {output}")


def _print_refused(batch: Batch, as_json: bool) -> None:
    listed = (batch.errors.data if batch.errors else None) or []
    total = errors_total(batch)
    if as_json:
        data = [error.to_dict(mode="json") for error in listed]
        show.print_json({"object": "list", "total": total, "data": data})
        return
    if listed:
        show.print_table(show.refused_table(listed))
    _say_total(len(listed), total, "lines refused", batch.status)


def _print_failed(records: list[dict[str, Any]], total: int, as_json: bool) -> None:
    if as_json:
        show.print_json({"object": "list", "total": total, "data": records})
        return
    show.print_table(show.failed_table(records))
    _say_total(len(records), total, "lines failed", BatchStatus.COMPLETED)


def _say_total(shown: int, total: int, what: str, status: str) -> None:
    more = f"; the first {shown} are shown, --all fetches every one" if shown < total else ""
    console = Console(stderr=True, highlight=False)
    if total:
        _say(console, f"{total} {what}{more}")
    else:
        _say(console, f"no errors; the batch is {status}")


def _print(batch: Batch, as_json: bool) -> None:
    if as_json:
        show.print_json(show.as_json(batch))
    else:
        print(batch.id, flush=True)  # whoever reads it through a pipe wants it now, not when --wait ends


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)
