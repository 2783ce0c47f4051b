"""A private PostgreSQL and a private Valkey from wheels: nothing to install, nothing to set up."""

from __future__ import annotations

from db.embedded.errors import EmbeddedError
from db.embedded.servers import EmbeddedServers, embedded_servers

__all__ = ["EmbeddedError", "EmbeddedServers", "embedded_servers"]
