"""A program that uses the embedded servers and waits to be killed: `python -m tests.dummies.servers HOME`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from db.embedded import EmbeddedServers

with EmbeddedServers(Path(sys.argv[1])) as servers:
    print(servers.pid("postgres"), servers.pid("valkey"), flush=True)
    signal.pause()
