"""A folder and servers of a bench's own, gone when it ends."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from db.embedded import EmbeddedServers


@contextmanager
def scratch_servers() -> Iterator[tuple[Path, EmbeddedServers]]:
    """The folder, and PostgreSQL and Valkey that keep their files in it."""
    # Directly below /tmp and open to pass through: as root, PostgreSQL runs under another account.
    with tempfile.TemporaryDirectory(prefix="fairlane-bench-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with EmbeddedServers(folder / "servers") as servers:
            yield folder, servers
