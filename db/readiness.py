"""How a part tells its supervisor where it stands: one word in a file.

The supervisor names the file in FAIRLANE_READY_FILE and removes it before each start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

READY = "ready"
READY_FILE = "FAIRLANE_READY_FILE"


def announce(word: str, environ: Mapping[str, str]) -> None:
    """Say `word` ("ready", or a state on the way such as "warming"); does nothing unsupervised."""
    name = environ.get(READY_FILE)
    if name:
        draft = Path(f"{name}.new")
        draft.write_text(word)
        draft.replace(name)
