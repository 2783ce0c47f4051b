"""The official client, pointed at this Fairlane, and its errors in one sentence each."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import httpx2
import openai

from cli.exits import BAD_INPUT, NOT_RUNNING, fail
from cli.profile import read_profile
from db.settings import home_folder

_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_KEY")


def api_client(environ: Mapping[str, str]) -> openai.OpenAI:
    """A client for OPENAI_BASE_URL with OPENAI_API_KEY, else for the profile that `fairlane up` wrote.

    One variable alone is not used: a key that was set for another service must not be sent here.
    """
    if all(environ.get(name) for name in _VARIABLES):
        return client_for(environ["OPENAI_BASE_URL"], environ["OPENAI_API_KEY"])
    profile = read_profile(home_folder(environ))
    if profile is None:
        fail(
            "there is no Fairlane to talk to: start one with `fairlane up`, "
            f"or set {' and '.join(_VARIABLES)}",
            NOT_RUNNING,
        )
    return client_for(profile.base_url, profile.api_key)


def client_for(base_url: str, api_key: str) -> openai.OpenAI:
    """A client for this address; a proxy set in the environment is not asked for this machine itself."""
    http = openai.DefaultHttpxClient(trust_env=not _is_this_machine(base_url))
    return openai.OpenAI(base_url=base_url, api_key=api_key, http_client=http)


@contextlib.contextmanager
def api_errors(client: openai.OpenAI) -> Iterator[None]:
    """End the command with one sentence and the right exit code when a call fails.

    Raises:
        typer.Exit: a call failed.
    """
    try:
        yield
    except (openai.APIConnectionError, httpx2.TransportError):
        fail(
            f"cannot reach the API at {client.base_url}; is it running? (`fairlane status`, `fairlane up`)",
            NOT_RUNNING,
        )
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        fail(
            f"{said(error)} ({client.base_url} was asked; `fairlane env` shows this machine's key)",
            NOT_RUNNING,
        )
    except openai.APIStatusError as error:
        fail(said(error), BAD_INPUT if error.status_code < 500 else NOT_RUNNING)


def said(error: openai.APIStatusError) -> str:
    """The API's own sentence about an error."""
    if isinstance(error.body, dict) and isinstance(error.body.get("message"), str):
        return str(error.body["message"])
    return error.message


def _is_this_machine(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
