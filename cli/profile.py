"""The private profile: the address and the key that this machine's own commands use."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Profile:
    base_url: str  # http://host:port/v1
    api_key: str


def profile_path(home: Path) -> Path:
    return home / "profile.json"


def read_profile(home: Path) -> Profile | None:
    """The profile that `fairlane up` wrote; None when there is none that can be read."""
    try:
        return Profile(**json.loads(profile_path(home).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_profile(home: Path, profile: Profile) -> None:
    """Replace the profile in one step; only its owner may read it."""
    draft = profile_path(home).with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(profile), file)
    draft.replace(profile_path(home))
