"""`fairlane env`: the two variables that make any OpenAI client talk to this Fairlane."""

from __future__ import annotations

import json
import os
import shlex
from typing import Annotated

import typer

from cli.exits import NOT_RUNNING, fail
from cli.profile import read_profile
from db.settings import home_folder


def register(app: typer.Typer) -> None:
    app.command("env")(env)


def env(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the settings for an OpenAI client; use it as eval "$(fairlane env)"."""
    profile = read_profile(home_folder(os.environ))
    if profile is None:
        fail("there is no profile yet; `fairlane up` writes it", NOT_RUNNING)
    variables = {"OPENAI_BASE_URL": profile.base_url, "OPENAI_API_KEY": profile.api_key}
    if as_json:
        print(json.dumps(variables))
        return
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
