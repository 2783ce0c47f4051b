"""`fairlane down`: drain and stop what `fairlane up` runs, or end what a crash left."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Annotated

import psutil
import typer

from cli.exits import fail
from cli.foreground import home_held
from db.home_lock import HomeBusyError
from db.run_state import read_state, state_path
from db.settings import home_folder

_NOT_HERE = "Fairlane does not run here"


def register(app: typer.Typer) -> None:
    app.command("down")(down)


def down(
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the drain to end.")] = 120.0,
) -> None:
    """Stop Fairlane on this machine: it drains and ends in order. Does nothing when it does not run."""
    home = home_folder(os.environ)
    if not home.exists():
        print(_NOT_HERE)
        return
    state = read_state(state_path(home))
    supervisor = state.owner.process() if state is not None else None
    if state is None or supervisor is None:
        _end_leftovers(home)
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        supervisor.send_signal(signal.SIGTERM)
    if not state.owner.wait(timeout):
        fail(f"process {supervisor.pid} still drains after {timeout:g} s; `fairlane down` again hurries it")
    print("Fairlane has stopped")


def _end_leftovers(home: Path) -> None:
    try:
        with home_held(home) as left:
            print(f"ended what a crash had left: {', '.join(left)}" if left else _NOT_HERE)
    except HomeBusyError as error:
        fail(str(error))
