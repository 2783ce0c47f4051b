"""A Fairlane for the demo: the one that runs in this home already, or one that the demo starts."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import openai

from cli.client import client_for
from cli.logs import keep_small, last_lines
from cli.profile import read_profile
from cli.supervised import DONE
from db.embedded.folders import prepare_home
from db.guard import Guard, start_guard
from db.processes import Identity, Session, end_session, spawn
from db.readiness import READY
from db.run_state import PartState, read_state, state_path

_START_S = 180.0  # until the API answers; a model may take longer
_STOP_S = 120.0  # longer than all parts together may take to drain
_LOOK_EVERY_S = 0.25
_TOO_MANY_RESTARTS = 3
_SHOWN_CHARACTERS = 600  # of a log
WARMING = "warming"  # a worker whose engine loads
LOADING = "the model loads, which takes some 40 s on two cores"

Say = Callable[[str], None]


class PlatformFailed(RuntimeError):
    """The platform cannot do the demo; the text says why."""


@dataclass(frozen=True, slots=True)
class Served:
    """A model that can be asked for."""

    client: openai.OpenAI
    model: str
    engine: str  # "vllm" or "simulated"


def parts_of(home: Path) -> tuple[PartState, ...] | None:
    """The parts of the platform that runs in this home; None when none does."""
    state = read_state(state_path(home))
    return state.parts if state is not None and state.owner.process() is not None else None


class Started:
    """A `fairlane up` that we started. It ends with us, also if we are killed, unless it is kept.

    Raises:
        EmbeddedError: the home belongs to another user.
    """

    def __init__(self, home: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        prepare_home(home)
        self.log = home / "logs" / "up.log"
        keep_small(self.log)
        self._log_began = self.log.stat().st_size if self.log.exists() else 0
        command = (sys.executable, "-m", "cli", "up", *arguments)
        self._process: subprocess.Popen[bytes] = spawn(command, env=environ, log=self.log)
        self._identity = Identity.of(self._process.pid)
        self._guard: Guard | None = None
        if self._identity is not None:
            self._guard = start_guard(Identity.of_this_process(), sessions=[self._identity])

    def check(self) -> None:
        """See that it still runs.

        Raises:
            PlatformFailed: it has ended by itself.
        """
        if self._process.poll() is not None:
            with self.log.open("rb") as file:
                file.seek(self._log_began)
                said = file.read().decode(errors="replace").strip()
            raise PlatformFailed(f"`fairlane up` ended by itself: {said or 'it said nothing'}")

    def keep(self) -> None:
        """Let it run on without us."""
        if self._guard is not None:
            self._guard.stop()

    def stop(self) -> None:
        """Drain it and wait for its end. Another Ctrl-C meanwhile ends everything at once."""
        hurry = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: hurry.set())
        if self._identity is not None:
            end_session(Session(self._identity), grace_s=_STOP_S, hurry=hurry.is_set)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        self.keep()


def wait_for_model(home: Path, wanted: str, started: Started | None, say: Say) -> Served:
    """Wait until the API answers and a model can be asked for: `wanted`, or else the first one.

    Raises:
        PlatformFailed: the API does not come up in time, or a part cannot start.
    """
    api_by = time.monotonic() + _START_S
    while True:
        if started is not None:
            started.check()
        parts = parts_of(home) or ()
        check_parts(home, parts)
        states = {part.name: part.state for part in parts}
        say(_waiting_for(states))
        if states.get("api") == READY:
            # A worker that warms has named its model, and requests for it are accepted.
            served = _served(home, wanted) if states.get("worker") in (WARMING, READY) else None
            if served is not None:
                return served
        elif time.monotonic() > api_by:
            raise PlatformFailed(
                f"the API has not come up in {_START_S:g} s; the logs are in {home / 'logs'}"
            )
        time.sleep(_LOOK_EVERY_S)


def check_parts(home: Path, parts: Sequence[PartState]) -> None:
    """See that no part is beyond hope.

    Raises:
        PlatformFailed: a part fails again and again.
    """
    for part in parts:
        if part.restarts >= _TOO_MANY_RESTARTS and part.state != READY:
            log = home / "logs" / f"{part.name}.log"
            end = last_lines(log)[-_SHOWN_CHARACTERS:]
            raise PlatformFailed(f"{part.name} fails again and again; {log} ends with:\n{end}")


def worker_state(home: Path) -> str:
    """What the GPU worker says of itself; "" when there is none."""
    return next((part.state for part in parts_of(home) or () if part.name == "worker"), "")


def _waiting_for(states: Mapping[str, str]) -> str:
    coming = [name for name, state in states.items() if state not in (READY, DONE, WARMING)]
    if coming:
        return f"starting; waiting for {', '.join(coming)}"
    return LOADING if states.get("worker") == WARMING else "starting"


def _served(home: Path, wanted: str) -> Served | None:
    profile = read_profile(home)
    if profile is None:
        return None
    client = client_for(profile.base_url, profile.api_key)
    with contextlib.suppress(openai.APIConnectionError, openai.InternalServerError):
        models = list(client.models.list())
        model = next((model for model in models if model.id == wanted), models[0] if models else None)
        if model is not None:
            return Served(client, model.id, str((model.model_extra or {}).get("engine", "unknown")))
    return None
