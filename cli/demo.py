"""`fairlane demo`: start everything, have questions answered, show some, stop everything."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import typer
from openai.types import Batch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli import transfer
from cli.batch import create
from cli.client import api_errors
from cli.demo_platform import (
    LOADING,
    WARMING,
    PlatformFailed,
    Served,
    Started,
    check_parts,
    parts_of,
    wait_for_model,
    worker_state,
)
from cli.demo_questions import Question, load_questions, read_answers, write_requests
from cli.exits import FAILED, fail
from cli.show import plain
from cli.standing import summary
from cli.up import Engine
from cli.watch import watch
from db.embedded import EmbeddedError
from db.settings import DEMO_MODEL, demo_model_folder, home_folder

_WINDOW = "1h"
_SHOWN = 5
_SHOWN_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class _Outcome:
    answered: int
    engine: str


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    engine: Annotated[
        Engine, typer.Option(help="What answers: vLLM, or a simulation whose answers are labelled so.")
    ] = Engine.VLLM,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running afterwards.")] = False,
    count: Annotated[
        int, typer.Option("--questions", min=1, max=1319, help="How many questions to ask.")
    ] = 100,
) -> None:
    """Have questions answered by a small model, from nothing to a table of answers.

    Starts Fairlane unless it runs already, and stops what it started.

    Ends with 0 only if every question was answered.
    """
    os.umask(0o077)  # the answers are for this user only
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # they end the demo as Ctrl-C does: in order
    home = home_folder(os.environ)
    console = Console(highlight=False)
    try:
        with _platform(home, engine, keep, console) as served:
            outcome = _ask(served, load_questions(count), home, console)
    except (PlatformFailed, EmbeddedError) as error:
        fail(f"the demo failed: {error}")
    console.print(f"demo: {outcome.answered} of {count} answered, engine {outcome.engine}", soft_wrap=True)
    if outcome.answered < count:
        raise typer.Exit(FAILED)


@contextmanager
def _platform(home: Path, engine: Engine, keep: bool, console: Console) -> Iterator[Served]:
    """A running platform with a model to ask. What was started here ends here, unless it is kept."""
    if parts_of(home) is not None:
        _say(console, f"Fairlane runs already on {home}; the demo uses it and leaves it running")
        yield _wait(home, None, console)
        return
    started = Started(home, _arguments(engine), os.environ)
    try:
        served = _wait(home, started, console)
        yield Served(served.client, served.model, engine)
        _where_next(console, engine)
    except BaseException:
        _say(console, "stopping what the demo started")
        started.stop()
        raise
    if keep:
        started.keep()
        _say(console, "Fairlane is left running; `fairlane down` stops it, `fairlane status` shows it")
    else:
        _say(console, "stopping what the demo started")
        started.stop()


def _arguments(engine: Engine) -> list[str]:
    """The rest of the command line of `fairlane up`."""
    arguments = ["--engine", engine, "--name", DEMO_MODEL]
    if engine is Engine.VLLM:
        folder = demo_model_folder(os.environ)
        if not folder.is_dir():
            raise PlatformFailed(
                f"the demo model is not at {folder}; `make setup` prepares it, and "
                "`fairlane demo --engine simulated` does without a model"
            )
        arguments += ["--model", str(folder)]
    return arguments


def _wait(home: Path, started: Started | None, console: Console) -> Served:
    with console.status("starting", spinner="dots") if console.is_terminal else _Lines(console) as status:
        return wait_for_model(home, DEMO_MODEL, started, status.update)


class _Lines:
    """In place of a moving status line where there is no terminal: a line when the text changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, text: str) -> None:
        if text != self._said:
            self._said = text
            _say(self._console, text)


def _ask(served: Served, questions: Sequence[Question], home: Path, console: Console) -> _Outcome:
    """Run the questions as a batch, keep its output file, and show some answers."""
    _say(console, f"asking {served.model} ({served.engine}) {len(questions)} questions, as one batch")
    with api_errors(served.client):
        with tempfile.TemporaryDirectory(prefix="fairlane-demo-") as folder:
            requests = Path(folder) / "gsm8k.jsonl"
            write_requests(questions, served.model, requests)
            stored = transfer.upload(served.client, requests, console)
        batch = create(served.client, stored.id, window=_WINDOW)
        batch = watch(served.client, batch.id, console, note=_note(home))
        _say(console, summary(batch))
        if batch.output_file_id is None:
            return _Outcome(0, served.engine)
        output = home / "demo" / f"{batch.id}.jsonl"
        output.parent.mkdir(exist_ok=True)
        transfer.download(served.client, batch.output_file_id, output)
    answers = read_answers(questions, output)
    console.print(_table(questions, answers, served.engine))
    _about_the_model(console, served)
    _say(console, f"All answers: {output}")
    return _Outcome(len(answers), served.engine)


def _note(home: Path) -> Callable[[Batch], str]:
    """What a batch without answers waits for; ends the demo when a part fails for good."""

    def note(_: Batch) -> str:
        check_parts(home, parts_of(home) or ())
        return LOADING if worker_state(home) == WARMING else ""

    return note


def _table(questions: Sequence[Question], answers: dict[str, str], engine: str) -> Table:
    answer_title = "simulated answer" if engine == Engine.SIMULATED else "answer"
    table = Table(title="Some of the answers", title_justify="left", show_lines=True)
    for title in ("question", answer_title, "expected"):
        table.add_column(title, overflow="fold")
    for question in [question for question in questions if question.custom_id in answers][:_SHOWN]:
        answer = plain(answers[question.custom_id], _SHOWN_CHARACTERS)
        table.add_row(
            Text(plain(question.text, _SHOWN_CHARACTERS)), Text(answer), Text(plain(question.expected))
        )
    return table


def _about_the_model(console: Console, served: Served) -> None:
    if served.engine == Engine.SIMULATED:
        _say(console, "These answers are simulated: no model ran, and they mean nothing.")
        return
    if served.model == DEMO_MODEL:
        _say(
            console,
            f"{served.model} is a toy model that is often wrong. To serve a real one: "
            "`fairlane up --model FOLDER --name NAME`",
        )


def _where_next(console: Console, engine: Engine) -> None:
    up = "fairlane up --engine simulated" if engine is Engine.SIMULATED else "fairlane up --model FOLDER"
    _say(
        console,
        f"Next: `{up}` starts Fairlane to stay, `fairlane env` prints the settings for any OpenAI "
        "client, and `fairlane batch submit FILE` runs a file of yours; README.md and docs/ tell more",
    )


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)
