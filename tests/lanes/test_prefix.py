from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lanes.policy import DEFAULT
from lanes.prefix import prefix_group

POLICY = replace(DEFAULT, prefix_bytes=100)


def group(body: dict[str, Any]) -> int:
    return prefix_group(body, POLICY)


def chat(*contents: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content} for content in contents]} | more


@pytest.mark.parametrize(
    "make",
    [
        chat,
        lambda text: chat("be brief", text),
        lambda text: chat([{"type": "text", "text": text}]),
        lambda text: {"prompt": text},
        lambda text: {"prompt": [text]},
        lambda text: {"prompt": list(text.encode())},
        lambda text: {"instructions": "be brief", "input": text},
    ],
)
def test_only_the_beginning_counts(make: Any) -> None:
    long = "\u00e9" * 100
    assert group(make(long + "one")) == group(make(long + "two"))
    assert group(make("one" + long)) != group(make("two" + long))


def test_what_does_not_reach_the_prompt_does_not_count() -> None:
    assert group(chat("hi", max_tokens=3, model="a")) == group(chat("hi", max_tokens=4, model="b"))


def test_tools_come_before_the_messages() -> None:
    tools = [{"type": "function", "function": {"name": "f" * 200}}]
    assert group(chat("one", tools=tools)) == group(chat("two", tools=tools)) != group(chat("one"))


def test_a_group_fits_into_a_bigint_and_is_the_same_in_every_process() -> None:
    found = group(chat("hi"))
    assert found == 2605502053976902484
    assert -(1 << 63) <= found < 1 << 63
