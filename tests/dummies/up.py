"""`fairlane up` with dummy parts: `python -m tests.dummies.up HOME ORDER_FILE NAME...`.

A name that begins with "stubborn" is a part that does not end by itself.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console

from cli.foreground import home_held, run_in_foreground
from cli.part import Part
from db.guard import guard_command
from db.home_lock import HomeBusyError
from db.processes import Identity
from db.run_state import state_path


def dummy_part(name: str, order: Path, *, after: tuple[str, ...] = (), stop_wait_s: float = 60.0) -> Part:
    command = [sys.executable, "-m", "tests.dummies.part", name, "--order", str(order)]
    if name.startswith("stubborn"):
        command.append("--stubborn")
    return Part(name, tuple(command), dict(os.environ), after=after, stop_wait_s=stop_wait_s)


def main() -> None:
    home, order = Path(sys.argv[1]), Path(sys.argv[2])
    guard = guard_command(Identity.of_this_process(), state=state_path(home))
    parts = [Part("guard", guard, dict(os.environ))]
    parts += [dummy_part(name, order, after=("guard",)) for name in sys.argv[3:]]
    try:
        with home_held(home) as left:
            print(f"left: {' '.join(left)}", flush=True)
            run_in_foreground(parts, home=home, url="http://127.0.0.1:1/v1", console=Console())
    except HomeBusyError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
