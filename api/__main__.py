"""`python -m api`: serve until SIGTERM or SIGINT, then finish what is under way."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys

import uvicorn

from api.app import create_app
from api.services import Services
from api.settings import ApiSettings
from api.watch import Watch
from db.connect import Role, connect
from db.logs import configure_logs
from db.objects import Objects
from db.readiness import READY, announce
from db.redis.broker import celery_app
from db.redis.doorbell import Doorbell
from db.settings import Settings, SettingsError

_CONNECTIONS = 10
# Longer than clients keep an idle connection (5 s), so that none sends into one that we just closed.
_KEEP_ALIVE_S = 75
_GRACE_S = 10  # for requests under way when the process is told to end


class _Server(uvicorn.Server):
    """Says that it is ready once it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            announce(READY, os.environ)


async def _serve(settings: Settings, api: ApiSettings) -> None:
    engine = connect(settings.database_url, Role.API, connections=_CONNECTIONS, name="api")
    try:
        services = Services(
            engine=engine,
            objects=Objects(settings.objects_url),
            doorbell=Doorbell(celery_app(settings.redis_url, "fairlane-api")),
            max_file_bytes=api.max_file_bytes,
            watch=Watch(engine),
        )
        config = uvicorn.Config(
            create_app(services),
            host=api.host,
            port=api.port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S,
        )
        await _Server(config).serve()
    finally:
        await engine.dispose()


def main() -> int:
    try:
        settings, api = Settings.from_environment(os.environ), ApiSettings.from_environment(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    configure_logs()
    # After a graceful end the server raises the signal again, and an end on request is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    asyncio.run(_serve(settings, api))
    return 0


if __name__ == "__main__":
    sys.exit(main())
