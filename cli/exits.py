"""Exit codes, the same for every command (docs/cli.md), and the one way to end with an error."""

from __future__ import annotations

from typing import NoReturn

import typer
from rich.console import Console

OK = 0
FAILED = 1
BAD_INPUT = 2  # typer ends with it too when a command line is wrong
NOT_RUNNING = 3  # or out of reach, or it does not accept the key
NOT_READY = 4


def fail(text: str, code: int = FAILED) -> NoReturn:
    """Say on standard error what is wrong and what to do, and end."""
    Console(stderr=True, highlight=False).print(text, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(code)
