"""Settings of the API process alone; those that every process has are in db.settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from db.settings import SettingsError

_HOST = "127.0.0.1"  # this machine only, unless somebody asks for more
_PORT = 8000
_MAX_FILE_BYTES = 10 * 1024**3


@dataclass(frozen=True, slots=True)
class ApiSettings:
    host: str = _HOST
    port: int = _PORT
    max_file_bytes: int = _MAX_FILE_BYTES

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> ApiSettings:
        """Read FAIRLANE_HOST, FAIRLANE_PORT and FAIRLANE_MAX_FILE_BYTES.

        Raises:
            SettingsError: a number is none.
        """
        return cls(
            host=environ.get("FAIRLANE_HOST") or _HOST,
            port=_number(environ, "FAIRLANE_PORT", _PORT),
            max_file_bytes=_number(environ, "FAIRLANE_MAX_FILE_BYTES", _MAX_FILE_BYTES),
        )


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit()):
        raise SettingsError(f"{name} is {text!r}; set it to a whole number, or leave it out for {default}")
    return int(text)
