"""Every code that a client can meet has its section in docs/errors.md, and retries happen as it says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from http import HTTPStatus

import httpx2
import openai
import pytest
from starlette.responses import JSONResponse

from api.errors import INTERNAL, TABLE, Shape, error_response
from tests.architecture import sources

_WAIT = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_PAGE = (sources.ROOT / "docs/errors.md").read_text()
_SECTION = re.compile(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_SAID = re.compile(r"Status (\d{3}), tried again by the client: (yes|no)\.")
# What carries a code to a client, and where among its arguments the code stands.
_CARRIERS = {"Failure": 0, "Refusal": 0, "LineError": 1}
_IN_SQL = re.compile(r"'code', '(\w+)'")

SECTIONS = dict(_SECTION.findall(_PAGE))
ANSWERS: dict[str, tuple[type[Exception], Shape]] = {
    shape.code: (kind, shape) for kind, shape in TABLE.items()
}
ANSWERS[INTERNAL.code] = (Exception, INTERNAL)


def _written() -> Iterator[str]:
    """The codes of lines, records and attempts, wherever the source writes one."""
    for path in sources.files("lanes", "db", "workers"):
        for node in ast.walk(sources.tree(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            place = _CARRIERS.get(node.func.id)
            if place is None or len(node.args) <= place:
                continue
            code = node.args[place]
            if isinstance(code, ast.Constant) and isinstance(code.value, str):
                yield code.value
    for path in (sources.ROOT / "db/sql").glob("*.sql"):
        yield from _IN_SQL.findall(path.read_text())


def _answer(kind: type[Exception]) -> JSONResponse:
    """What a client gets for an error of that class, whatever it was made with."""
    error = kind.__new__(kind)
    for name, value in (("message", "What to do."), ("param", None), ("allowed", "GET")):
        if kind.__module__ == "api.refusals":
            setattr(error, name, value)
    return error_response(error, {"type": "http", "method": "GET", "path": "/v1/models"})


def test_every_code_has_a_section_and_every_section_a_code() -> None:
    titles = [title for title, _ in _SECTION.findall(_PAGE)]
    assert len(titles) == len(set(titles))
    written = set(_written())
    assert {"engine_killer", "url_mismatch", "duplicate_custom_id", "empty_batch"} < written
    assert set(titles) == set(ANSWERS) | written
    assert all(len(text.split()) > 8 for text in SECTIONS.values())


def test_only_codes_of_answers_have_a_status_and_it_is_the_one_answered() -> None:
    said = {code: found for code, text in SECTIONS.items() if (found := _SAID.search(text))}
    assert {code: int(found[1]) for code, found in said.items()} == {
        code: shape.status for code, (_, shape) in ANSWERS.items()
    }


def test_whoever_is_told_to_wait_is_told_how_long_or_not_to_come_back() -> None:
    waiting = [kind for kind, shape in TABLE.items() if shape.status in _WAIT]
    assert waiting
    for kind in waiting:
        headers = _answer(kind).headers
        after = headers.get("retry-after")
        assert headers.get("x-should-retry") == "false" or (after is not None and int(after) >= 1), kind


@pytest.mark.parametrize("code", sorted(ANSWERS))
def test_the_official_client_tries_again_as_the_page_says(code: str) -> None:
    kind, shape = ANSWERS[code]
    answer = _answer(kind)
    asked = 0

    def serve(_: httpx2.Request) -> httpx2.Response:
        nonlocal asked
        asked += 1
        return httpx2.Response(answer.status_code, headers=dict(answer.headers), content=bytes(answer.body))

    http = openai.DefaultHttpxClient(transport=httpx2.MockTransport(serve))
    client = openai.OpenAI(base_url="http://api/v1", api_key="k", http_client=http, max_retries=1)
    with pytest.raises(openai.APIStatusError) as raised:
        client.models.list()
    assert (raised.value.status_code, raised.value.code) == (shape.status, code)
    said = _SAID.search(SECTIONS[code])
    assert said is not None
    assert asked == (2 if said[2] == "yes" else 1)
    http.close()
