"""The stamp in `.venv` that says which parts are complete, and for which folder it was made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from bootstrap.plan import Part

NAME = "fairlane-setup.json"


def read(venv: Path) -> dict[str, str]:
    """Fingerprints by part; empty without a stamp, or when the folder was moved since.

    A moved `.venv` still carries the old path in its commands and must be made again.
    """
    try:
        stamp = json.loads((venv / NAME).read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return {}
    return dict(stamp["parts"]) if stamp["venv"] == str(venv) else {}


def write(venv: Path, parts: Mapping[str, str]) -> None:
    """Replace the stamp in one step, so that a reader sees the old one or the new one."""
    waiting = venv / f"{NAME}.{os.getpid()}"
    waiting.write_text(json.dumps({"venv": str(venv), "parts": dict(parts)}, indent=1))
    waiting.replace(venv / NAME)


def missing(venv: Path, wanted: Iterable[Part]) -> list[Part]:
    """The wanted parts that are not there, or were made from other pins."""
    there = read(venv)
    return [part for part in wanted if there.get(part.name) != part.fingerprint]
