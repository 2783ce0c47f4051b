"""The whole set-up: look what is missing, check, say what it costs, install, prepare the model."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bootstrap import checks, plan, stamp, venv
from bootstrap.install import install
from bootstrap.machine import Machine, this_machine, vllm_problem
from bootstrap.pip import Pip, PipFailed
from db.settings import cache_folder, demo_model_folder


class SetupError(Exception):
    """Set-up cannot go on; the text is for the person at the terminal."""


def set_up(root: str | Path, *, vllm: bool, tools: bool) -> None:
    """Make `.venv` under `root` hold all that was asked for.

    Raises:
        SetupError: something is missing on this machine, or a step failed.
    """
    root = Path(root)
    machine = this_machine()
    if vllm and (problem := vllm_problem(machine)):
        command = f"make {'test' if tools else 'demo'} ENGINE=simulated"
        raise SetupError(f"{problem}\nWithout it, with every answer labelled simulated: {command}")
    wanted = plan.parts(root, machine.build, vllm=vllm, tools=tools)
    if complete(root, wanted, vllm=vllm):
        return
    with only_one(root) as lock:
        if not complete(root, wanted, vllm=vllm):
            fill(root, machine, wanted, vllm=vllm, lock=lock)


def complete(root: Path, wanted: list[plan.Part], *, vllm: bool) -> bool:
    there = venv.ready(root / ".venv") and not stamp.missing(root / ".venv", wanted)
    return there and (not vllm or demo_model_folder(os.environ).exists())


@contextmanager
def only_one(root: Path) -> Iterator[int]:
    """Hold a lock on the folder, handed on to pip: after a kill -9 its pip may still be at work."""
    folder = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another set-up is at work in this folder; waiting for its end.", flush=True)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(folder)


def fill(root: Path, machine: Machine, wanted: list[plan.Part], *, vllm: bool, lock: int) -> None:
    folder = root / ".venv"
    missing = stamp.missing(folder, wanted) if venv.ready(folder) else wanted
    prepare = vllm and not demo_model_folder(os.environ).exists()
    bill = plan.bill(missing, prepare_model=prepare)
    check(root, missing, bill, prepare=prepare)
    engine = f"the {machine.build.upper()} build of vLLM" if vllm else "the simulated engine"
    say(f"Set-up with {engine}: {bill.text()}.")
    try:
        if missing:
            venv.make_or_mend(folder, lock)
            add(Pip(folder, root / "constraints" / f"{machine.build}.txt", lock), wanted, root)
        if prepare:
            prepare_model(root, lock)
    except PipFailed as error:
        raise SetupError(f"{error}\npip failed (above). The same command goes on from here.") from error
    except subprocess.CalledProcessError as error:
        raise SetupError(f"{error.stdout}\nThis step failed (above): {' '.join(error.cmd)}") from error


def add(pip: Pip, wanted: list[plan.Part], root: Path) -> None:
    """Install what the stamp lacks. Until that is done the stamp does not name it."""
    missing = {part.name: part.fingerprint for part in stamp.missing(pip.venv, wanted)}
    kept = {name: mark for name, mark in stamp.read(pip.venv).items() if name not in missing}
    stamp.write(pip.venv, kept)
    pip.clean()
    install(pip, [part for part in wanted if part.name in missing], root, say)
    pip.clean()
    stamp.write(pip.venv, {**kept, **missing})


def check(root: Path, missing: list[plan.Part], bill: plan.Bill, *, prepare: bool) -> None:
    """Refuse before anything is written."""
    pip_cache = os.environ.get("PIP_CACHE_DIR") or str(Path.home() / ".cache/pip")
    needs = [(str(root), bill.installed_mb + bill.download_mb), (pip_cache, bill.download_mb)]
    if prepare:
        needs.append((str(cache_folder(os.environ)), plan.PREPARED_MODEL_MB))
    problem = checks.venv_problem() or checks.disk_problem(needs)
    if missing:
        problem = problem or checks.index_problem(os.environ)
    if problem:
        raise SetupError(problem)


def prepare_model(root: Path, lock: int) -> None:
    """In its own process, with the libraries that have just been installed."""
    ran = subprocess.run(
        [str(root / ".venv/bin/python"), "-m", "bootstrap.model"],
        cwd=root,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=[lock],
    )
    say("  " + ran.stdout.strip().rpartition("\n")[2])


def say(line: str) -> None:
    print(line, flush=True)
