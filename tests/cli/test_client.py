"""Where the command line finds its API, and what it says when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from cli.client import api_client
from cli.profile import Profile, write_profile

PROFILE = Profile(base_url="http://127.0.0.1:8000/v1", api_key="fl_profile")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    write_profile(tmp_path, PROFILE)
    return {"FAIRLANE_HOME": str(tmp_path)}


def test_both_variables_win_over_the_profile(environ: dict[str, str]) -> None:
    client = api_client(environ | {"OPENAI_BASE_URL": "http://h:1/v1", "OPENAI_API_KEY": "k"})
    assert (str(client.base_url), client.api_key) == ("http://h:1/v1/", "k")


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OPENAI_API_KEY"])
def test_one_variable_alone_is_not_used(environ: dict[str, str], name: str) -> None:
    """A key for another service would go to this one, or ours to another."""
    client = api_client(environ | {name: "http://elsewhere/v1"})
    assert (str(client.base_url), client.api_key) == ("http://127.0.0.1:8000/v1/", "fl_profile")


def test_without_a_profile_the_error_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        api_client({"FAIRLANE_HOME": str(tmp_path)})
    assert ended.value.exit_code == 3
    assert "`fairlane up`" in capsys.readouterr().err


def test_no_proxy_is_asked_for_this_machine(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert api_client(environ)._client.trust_env is False
    elsewhere = api_client(environ | {"OPENAI_BASE_URL": "http://h:1/v1", "OPENAI_API_KEY": "k"})
    assert elsewhere._client.trust_env is True
