"""The command `fairlane`: each noun registers its own subcommands."""

from __future__ import annotations

import typer

from cli import batch, demo, down, env, status, up

app = typer.Typer(
    name="fairlane",
    help="Queue and batch inference for large language models, on your own machines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for part in (up, down, status, env, demo, batch):
    part.register(app)
