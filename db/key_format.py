"""How an API key is spelled: `fl_<short>_<secret><checksum>`.

The short token finds the row and may be logged; the secret is shown once and only its SHA-256
is stored; the checksum tells a typing error or junk from a key without asking the database. The
prefix lets secret scanners recognise a leaked key.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from dataclasses import dataclass

_ALPHABET = string.ascii_letters + string.digits
_SHORT_LENGTH = 12
_SECRET_LENGTH = 43  # 62**43 > 2**256
_KEY = re.compile(rf"fl_([A-Za-z0-9]{{{_SHORT_LENGTH}}})_([A-Za-z0-9]{{{_SECRET_LENGTH}}})([0-9a-f]{{8}})")


@dataclass(frozen=True, slots=True)
class KeyParts:
    """A well-formed key; whether it is anybody's is the database's to say."""

    short_token: str
    secret_hash: bytes  # SHA-256, 32 bytes


def make_key() -> tuple[str, KeyParts]:
    """A new random key of 256 bits, whole and as it is stored."""
    short, secret = _random(_SHORT_LENGTH), _random(_SECRET_LENGTH)
    return f"fl_{short}_{secret}{_checksum(short, secret)}", KeyParts(short, _hash(secret))


def parse_key(text: str) -> KeyParts | None:
    """The parts of a key, or None when the text cannot be one."""
    match = _KEY.fullmatch(text)
    if match is None or _checksum(match[1], match[2]) != match[3]:
        return None
    return KeyParts(match[1], _hash(match[2]))


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _checksum(short: str, secret: str) -> str:
    return f"{zlib.crc32(f'{short}_{secret}'.encode()):08x}"
