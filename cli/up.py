"""`fairlane up`: start everything on this machine, keep it running, drain it on Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.exits import fail
from cli.foreground import home_held, run_in_foreground
from cli.model_folder import context_tokens
from cli.platform import MAX_CONNECTIONS, Plan, platform_parts
from cli.ports import free_port
from cli.profile import Profile, read_profile, write_profile
from cli.supervisor import PartFailed
from db.connect import Role, connect
from db.deployments import register_deployment
from db.embedded import EmbeddedError, embedded_servers
from db.embedded.folders import runtime_base, runtime_folder
from db.embedded.servers import Server
from db.home_lock import HomeBusyError
from db.keys import authenticate, ensure_default_key
from db.settings import DEMO_MODEL, demo_model_folder, home_folder, with_driver

DEFAULT_PORT = 8000


class Engine(StrEnum):
    VLLM = "vllm"
    SIMULATED = "simulated"


def register(app: typer.Typer) -> None:
    app.command("up")(up)


def up(
    host: Annotated[
        str,
        typer.Option(help="Address to listen on; other machines reach only another than this."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the API, or the next free one.")] = DEFAULT_PORT,
    engine: Annotated[
        Engine, typer.Option(envvar="FAIRLANE_ENGINE", help="What answers: vLLM, or a labelled simulation.")
    ] = Engine.VLLM,
    model: Annotated[
        Path | None, typer.Option(envvar="FAIRLANE_MODEL", help="Folder of the model; the demo's if none.")
    ] = None,
    name: Annotated[
        str, typer.Option(envvar="FAIRLANE_DEPLOYMENT", help="Name of the model for clients.")
    ] = DEMO_MODEL,
) -> None:
    """Start Fairlane on this machine and keep it running until Ctrl-C."""
    if engine is Engine.VLLM:
        model = model or demo_model_folder(os.environ)
        if not model.is_dir():
            fail(
                f"vLLM needs the folder of a model, and {model} is none. Use --model FOLDER, prepare the "
                "demo's model with `make setup`, or try Fairlane without a model: --engine simulated"
            )
    os.umask(0o077)  # objects, logs and profile are for this user only
    home = home_folder(os.environ)
    console = Console(highlight=False)
    try:
        with home_held(home) as left:
            if left:
                console.print(f"ended what an earlier run had left: {', '.join(left)}")
            servers, database_url, redis_url = _servers(home, os.environ)
            plan = Plan(
                home=home,
                host=host,
                port=_port(host, port, console),
                database_url=database_url,
                redis_url=redis_url,
                engine=engine,
                model=model.resolve() if model else None,
                deployment=name,
            )
            parts = platform_parts(plan, environ=os.environ, servers=servers, migrated=lambda: _prepare(plan))
            run_in_foreground(parts, home=home, url=plan.base_url, console=console)
            shutil.rmtree(runtime_folder(home, runtime_base(os.environ)), ignore_errors=True)
    except (EmbeddedError, HomeBusyError, PartFailed) as error:
        fail(str(error))


def _servers(home: Path, environ: Mapping[str, str]) -> tuple[tuple[Server, ...], str, str]:
    """The embedded servers to run and the two URLs: none are run when the URLs are given."""
    given = [environ.get(name) for name in ("DATABASE_URL", "REDIS_URL")]
    if given[0] and given[1]:
        return (), given[0], given[1]
    if given[0] or given[1]:
        fail("set both DATABASE_URL and REDIS_URL to use your own servers, or neither")
    postgres, valkey = embedded_servers(home, max_connections=MAX_CONNECTIONS, base=runtime_base(environ))
    return (postgres, valkey), postgres.url, valkey.url


def _port(host: str, wanted: int, console: Console) -> int:
    try:
        port = free_port(host, wanted)
    except OSError as error:
        fail(f"cannot listen on {host}: {error}")
    if port != wanted:
        console.print(f"port {wanted} is busy; using {port}")
    return port


async def _working_key(database_url: str, earlier: str | None) -> str:
    """The profile's key if this database knows it, else a new one of the default tenant."""
    if earlier is not None:
        engine = connect(with_driver(database_url), Role.API, connections=1, name="up")
        try:
            if await authenticate(engine, earlier) is not None:
                return earlier
        finally:
            await engine.dispose()
    engine = connect(with_driver(database_url), Role.ENGINE, connections=1, name="up")
    try:
        return await ensure_default_key(engine)
    finally:
        await engine.dispose()


async def _register(plan: Plan) -> None:
    """Let batches name the model from now on, also while its worker is still warming."""
    engine = connect(with_driver(plan.database_url), Role.ENGINE, connections=1, name="up")
    try:
        async with engine.begin() as connection:
            await register_deployment(connection, plan.deployment, plan.engine, context_tokens(plan.model))
    finally:
        await engine.dispose()


def _prepare(plan: Plan) -> None:
    """Register the deployment, and put the address and a key where this machine's commands find them."""
    asyncio.run(_register(plan))
    earlier = read_profile(plan.home)
    key = asyncio.run(_working_key(plan.database_url, earlier.api_key if earlier else None))
    write_profile(plan.home, Profile(base_url=plan.base_url, api_key=key))
