from __future__ import annotations

from typing import Any

import pytest

from lanes.body import Accepted, Refusal, check_body
from lanes.policy import DEFAULT

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "SECRET"}]


def judge(body: dict[str, Any], endpoint: str = CHAT) -> Accepted | Refusal:
    return check_body({"model": "toy", "messages": MESSAGES} | body, endpoint, {"toy"}, DEFAULT)


def part(kind: str, **source: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": kind, **source}]}]}


@pytest.mark.parametrize(
    "body",
    [
        {"chat_template": "{{ x }}"},
        {"chat_template_kwargs": {"enable_thinking": "yes"}},
        {"chat_template_kwargs": {"tools": []}},
        {"prompt_embeds": "AAAA"},
        {"cache_salt": "x"},
        {"request_id": "x"},
        {"logits_processors": ["os.system"]},
        {"guided_regex": "(a+)+"},
        {"structured_outputs": {"regex": "(a+)+"}},
        {"response_format": {"type": "structural_tag"}},
        {"priority": -1},
        {"echo": True},
        {"prompt_logprobs": 0},
        {"best_of": 2},
        {"kv_transfer_params": {}},
        {"vllm_xargs": {}},
        part("image_url", image_url={"url": "http://169.254.169.254/"}),
        part("image_url", image_url="https://example.com/a.png"),
        part("input_image", image_url="https://example.com/a.png"),
        part("video_url"),
    ],
)
def test_dangerous_fields_are_refused_with_a_remedy(body: dict[str, Any]) -> None:
    refusal = judge(body)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "unsupported_parameter"
    assert refusal.param is not None
    assert refusal.param.partition(".")[0] in body
    assert refusal.message.startswith(f"{refusal.param} is not accepted. ")
    assert "SECRET" not in refusal.message


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"model": None}, "missing_required_parameter", "model"),
        ({"model": 7}, "invalid_request", "model"),
        ({"model": "other"}, "model_not_found", "model"),
        ({"messages": None}, "missing_required_parameter", "messages"),
        ({"messages": "hi"}, "invalid_request", "messages"),
        ({"messages": []}, "invalid_request", "messages"),
        ({"messages": ["hi"]}, "invalid_request", "messages"),
        ({"messages": [{"content": "hi"}]}, "invalid_request", "messages"),
        ({"messages": MESSAGES * 10_001}, "invalid_request", "messages"),
        ({"n": 9}, "invalid_request", "n"),
        ({"n": True}, "invalid_request", "n"),
        ({"max_tokens": 0}, "invalid_request", "max_tokens"),
        ({"max_tokens": "9"}, "invalid_request", "max_tokens"),
        ({"max_completion_tokens": 1 << 40}, "invalid_request", "max_completion_tokens"),
        ({"stop": ["x"] * 65}, "invalid_request", "stop"),
        ({"stop": "x" * 1_001}, "invalid_request", "stop"),
        ({"stop": {"a": 1}}, "invalid_request", "stop"),
        ({"response_format": "json"}, "invalid_request", "response_format"),
        ({"response_format": {"x": "y" * 70_000}}, "invalid_request", "response_format"),
    ],
)
def test_wrong_bodies(body: dict[str, Any], code: str, param: str) -> None:
    refusal = judge(body)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.param) == (code, param)


@pytest.mark.parametrize(
    "body",
    [
        {"temperature": 0, "seed": 1, "anything_else": {"x": 1}},
        {"priority": None, "stream": False, "echo": False, "stop": None, "n": None},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"structured_outputs": {"json": {"type": "object"}}},
        part("image_url", image_url={"url": "data:image/png;base64,AA=="}),
        part("text", text="http://example.com"),
    ],
)
def test_harmless_fields_pass(body: dict[str, Any]) -> None:
    assert judge(body) == Accepted("toy", None, 1)


def test_the_smallest_output_limit_counts() -> None:
    assert judge({"max_tokens": 9, "max_completion_tokens": 5, "n": 3}) == Accepted("toy", 5, 3)


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [("/v1/completions", "prompt"), ("/v1/responses", "input"), ("/v1/embeddings", "input")],
)
def test_each_endpoint_has_its_own_content(endpoint: str, name: str) -> None:
    missing = judge({}, endpoint)
    assert isinstance(missing, Refusal)
    assert (missing.code, missing.param) == ("missing_required_parameter", name)
    assert judge({name: "hi"}, endpoint) == Accepted("toy", None, 1)
    assert judge({name: [1, 2]}, endpoint) == Accepted("toy", None, 1)
    assert isinstance(judge({name: ""}, endpoint), Refusal)
    assert isinstance(judge({name: 7}, endpoint), Refusal)
