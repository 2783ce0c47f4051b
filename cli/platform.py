"""The parts that make up Fairlane on one machine, in start order."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.part import Part, server_part
from db.embedded.servers import Server
from db.guard import guard_command
from db.processes import Identity
from db.run_state import state_path

# api, maintenance and worker; each holds a pool of at most 20, and operators need a few.
MAX_CONNECTIONS = 3 * 20 + 20

_API_STOP_S = 15.0  # answers that are being written are finished
_WORKER_STOP_S = 40.0  # requests that the engine runs are finished or given back
_LOOPBACK_OF_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (compared, not bound)


@dataclass(frozen=True, slots=True)
class Plan:
    """What `fairlane up` was asked to run."""

    home: Path
    host: str
    port: int
    database_url: str
    redis_url: str
    engine: str  # "vllm" or "simulated"
    model: Path | None
    deployment: str  # the name that clients use for the model

    @property
    def local_host(self) -> str:
        """The address at which this machine itself reaches the API."""
        return _LOOPBACK_OF_ANY.get(self.host, self.host)

    @property
    def base_url(self) -> str:
        host = f"[{self.local_host}]" if ":" in self.local_host else self.local_host
        return f"http://{host}:{self.port}/v1"


def platform_parts(
    plan: Plan,
    *,
    environ: Mapping[str, str],
    servers: Sequence[Server],
    migrated: Callable[[], None],
) -> list[Part]:
    """All parts; `servers` are the embedded ones, none when others are used.

    `migrated` is called once the schema is there, before the parts that need it start.
    """
    environment = _environment(plan, environ)
    names = tuple(server.name for server in servers)
    guard = guard_command(Identity.of_this_process(), state=state_path(plan.home))
    return [
        Part("guard", guard, environment),
        *(server_part(server, after=("guard",)) for server in servers),
        Part(
            "migrate",
            _module("migrations", "upgrade"),
            environment,
            after=("guard", *names),
            once=True,
            on_ready=migrated,
        ),
        Part("maintenance", _module("workers.maintenance"), environment, after=("migrate",)),
        Part(
            "worker",
            _module("workers.gpu"),
            {**environment, **_engine(plan)},
            after=("migrate",),
            stop_wait_s=_WORKER_STOP_S,
        ),
        Part(
            "api",
            _module("api"),
            environment,
            after=("migrate",),
            probe=lambda: _answers(plan.local_host, plan.port),
            stop_wait_s=_API_STOP_S,
        ),
    ]


def _environment(plan: Plan, environ: Mapping[str, str]) -> dict[str, str]:
    objects = environ.get("FAIRLANE_OBJECTS_URL") or (plan.home / "objects").as_uri()
    return {
        **environ,
        "DATABASE_URL": plan.database_url,
        "REDIS_URL": plan.redis_url,
        "FAIRLANE_HOME": str(plan.home),
        "FAIRLANE_OBJECTS_URL": objects,
        "FAIRLANE_HOST": plan.host,
        "FAIRLANE_PORT": str(plan.port),
        "PYTHONUNBUFFERED": "1",
    }


def _engine(plan: Plan) -> dict[str, str]:
    chosen = {"FAIRLANE_ENGINE": plan.engine, "FAIRLANE_DEPLOYMENT": plan.deployment}
    return chosen if plan.model is None else {**chosen, "FAIRLANE_MODEL": str(plan.model)}


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def _answers(host: str, port: int) -> bool:
    """Whether the API says that it is ready."""
    connection = http.client.HTTPConnection(host, port, timeout=1.0)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
