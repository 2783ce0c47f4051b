"""`python -m cli` is `fairlane`."""

from __future__ import annotations

from cli.main import app

app(prog_name="fairlane")
