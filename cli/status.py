"""`fairlane status`: what runs here and since when."""

from __future__ import annotations

import json
import os
import time
from typing import Annotated

import psutil
import typer
from rich.console import Console

from cli.exits import NOT_READY, NOT_RUNNING
from cli.report import parts_table
from cli.supervised import DONE
from db.readiness import READY
from db.run_state import PartState, RunState, read_state, state_path
from db.settings import home_folder


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the parts that run on this machine.

    Ends with 0 when all are ready, 3 when Fairlane does not run, 4 when a part is not ready.
    """
    home = home_folder(os.environ)
    state = read_state(state_path(home))
    running = state is not None and state.owner.process() is not None
    parts = state.parts if state is not None and running else ()
    uptimes_s = [_uptime_s(part) for part in parts]
    if as_json:
        print(json.dumps(_as_json(state if running else None, uptimes_s)))
    elif state is None or not running:
        Console().print(f"Fairlane does not run on {home}; start it with `fairlane up`", markup=False)
    else:
        console = Console(highlight=False)
        console.print(parts_table(parts, uptimes_s))
        console.print(f"{state.url or ''}  (supervisor: process {state.owner.pid})", markup=False)
    if not running:
        raise typer.Exit(NOT_RUNNING)
    if any(part.state not in (READY, DONE) for part in parts):
        raise typer.Exit(NOT_READY)


def _as_json(state: RunState | None, uptimes_s: list[float | None]) -> dict[str, object]:
    if state is None:
        return {"running": False, "url": None, "pid": None, "parts": []}
    parts = [
        {
            "part": part.name,
            "state": part.state,
            "pid": part.pid,
            "uptime_s": uptime,
            "restarts": part.restarts,
        }
        for part, uptime in zip(state.parts, uptimes_s, strict=True)
    ]
    return {"running": True, "url": state.url, "pid": state.owner.pid, "parts": parts}


def _uptime_s(part: PartState) -> float | None:
    if part.started is None:
        return None
    return round(float(time.time() - psutil.boot_time() - part.started), 1)
