"""Settings shared by every process: where the database, Redis and the objects are.

Built once, in an entry point, from its environment; everything below receives the value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEMO_MODEL = "SmolLM2-135M-Instruct"  # the name under which it is served, and its folder's name


class SettingsError(ValueError):
    """A setting is missing or wrong; the text names it and says what to do."""


@dataclass(frozen=True, slots=True)
class Settings:
    home: Path  # profile, embedded servers, logs, local objects
    database_url: str  # postgresql+psycopg://...
    redis_url: str  # redis://..., rediss://... or unix:///path
    objects_url: str  # file:///folder or s3://bucket/prefix

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """Read FAIRLANE_HOME, DATABASE_URL, REDIS_URL and FAIRLANE_OBJECTS_URL.

        Raises:
            SettingsError: DATABASE_URL or REDIS_URL is not set.
        """
        home = home_folder(environ)
        missing = [name for name in ("DATABASE_URL", "REDIS_URL") if not environ.get(name)]
        if missing:
            raise SettingsError(
                f"{' and '.join(missing)} must be set; `fairlane up` sets both for the servers it starts"
            )
        return cls(
            home=home,
            database_url=with_driver(environ["DATABASE_URL"]),
            redis_url=environ["REDIS_URL"],
            objects_url=environ.get("FAIRLANE_OBJECTS_URL") or (home / "objects").as_uri(),
        )


def home_folder(environ: Mapping[str, str]) -> Path:
    """FAIRLANE_HOME, or the platform's usual place for data of this user.

    Root gets /var/lib/fairlane: PostgreSQL refuses to run as root, and the account that it
    runs under instead cannot enter root's own home.
    """
    if environ.get("FAIRLANE_HOME"):
        return Path(environ["FAIRLANE_HOME"]).expanduser().resolve()
    if os.geteuid() == 0:
        return Path("/var/lib/fairlane")
    data = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "fairlane"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """FAIRLANE_CACHE, or the usual place for what may be deleted and made again."""
    if environ.get("FAIRLANE_CACHE"):
        return Path(environ["FAIRLANE_CACHE"]).expanduser().resolve()
    cache = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "fairlane"


def demo_model_folder(environ: Mapping[str, str]) -> Path:
    """Where set-up leaves the demo model, ready for vLLM; it exists only when it is complete."""
    return cache_folder(environ) / "models" / DEMO_MODEL


def with_driver(url: str) -> str:
    """The same database URL with psycopg 3 named as its driver, as SQLAlchemy wants it."""
    scheme, separator, rest = url.partition("://")
    if scheme in ("postgres", "postgresql") and separator:
        return f"postgresql+psycopg://{rest}"
    return url
