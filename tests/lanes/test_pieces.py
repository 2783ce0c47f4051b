from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lanes.batch import Window
from lanes.line import LineRules
from lanes.pieces import Piece, PieceReader
from lanes.policy import DEFAULT, Policy

CHAT = "/v1/chat/completions"


def request(number: int, content: str = "hi", **body: Any) -> bytes:
    return json.dumps(
        {
            "custom_id": f"c{number}",
            "method": "POST",
            "url": CHAT,
            "body": {"model": "toy", "messages": [{"role": "user", "content": content}], **body},
        },
        ensure_ascii=False,
    ).encode()


def read(data: bytes, policy: Policy = DEFAULT, endpoint: str = CHAT) -> list[Piece]:
    rules = LineRules(endpoint, frozenset({"toy"}), Window("1h", timedelta(hours=1)), policy)
    reader = PieceReader(rules, lambda model, tokens, limit: len(model) * 1_000 + tokens + (limit or 0))
    return [*reader.feed(data), *reader.finish()]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=12), st.integers(1, 400), st.integers(1, 5))
def test_every_body_lies_where_its_line_says(contents: list[str], size: int, lines: int) -> None:
    data = b"\n".join(request(number, content) for number, content in enumerate(contents, 1))
    pieces = read(data, replace(DEFAULT, segment_bytes=size, segment_lines=lines))
    placed = {}
    for piece in pieces:
        assert len(piece.lines) <= lines
        for line in piece.lines:
            body = json.loads(piece.bodies[line.byte_offset : line.byte_offset + line.byte_length])
            placed[line.line] = (line.custom_id, body["messages"][0]["content"])
    assert placed == {number: (f"c{number}", content) for number, content in enumerate(contents, 1)}


def test_bodies_are_kept_byte_for_byte() -> None:
    body = (
        '{"messages": [{"role":"user","content":"\\u00e9 \u00e9"}], "model":"toy",'
        ' "x": 1.10, "y": 123456789012345678901}'
    )
    line = f'{{"body": {body} , "url": "{CHAT}", "custom_id": "\u00e9", "method": "POST"}}'
    [piece] = read(line.encode())
    assert piece.bodies == body.encode()


def test_tokens_are_estimated_for_all_choices() -> None:
    """What is predicted for the model, the estimated input and the limit of one choice."""
    [piece] = read(request(1, "x" * 400, max_tokens=10, n=3))
    [line] = piece.lines
    assert line.input_tokens == -(-line.byte_length // 4)
    assert line.output_tokens == 3 * (3_000 + line.input_tokens + 10)


def test_a_file_without_requests_is_an_error_of_the_file() -> None:
    for data in (b"", b"\xef\xbb\xbf", b"\n \r\n\n"):
        [piece] = read(data)
        assert [(error.line, error.code) for error in piece.errors] == [(0, "empty_batch")]


def test_the_line_beyond_the_limit_ends_the_reading() -> None:
    policy = replace(DEFAULT, file_lines=2)
    data = b"\n\n".join(request(number) for number in range(1, 6))
    [piece] = read(data, policy)
    assert [line.line for line in piece.lines] == [1, 3]
    assert [(error.line, error.code) for error in piece.errors] == [(5, "too_many_tasks")]
