"""Is this request body one that the platform takes, and how large will its answer be?

Checked here: what every endpoint needs, the fields that would be dangerous to pass on
(chosen from vLLM's request fields and its published holes), and the limits of the policy. All
else is the engine's to judge. A field given as null counts as not given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from lanes.policy import Policy


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a body is refused; the message says what to do and never quotes the body."""

    code: str
    message: str
    param: str | None


@dataclass(frozen=True, slots=True)
class Accepted:
    model: str
    output_limit: int | None  # tokens for each choice, None: no limit given
    choices: int


# What each endpoint cannot do without, and what it may be.
_REQUIRED: dict[str, tuple[str, str]] = {
    "/v1/chat/completions": ("messages", "a list of messages"),
    "/v1/completions": ("prompt", "a string or a list"),
    "/v1/responses": ("input", "a string or a list"),
    "/v1/embeddings": ("input", "a string or a list"),
}
_LIMIT_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")

_NUMBERS = ("n", *_LIMIT_FIELDS)

_OURS = "The platform sets it by itself; remove it."
_NOT_SERVED = "It is not served here; remove it."
_USE_SCHEMA = "Use response_format with a JSON schema."
_BESIDE = "It is for the queue and not for the model: write it beside custom_id, not inside body."
_REFUSED: dict[str, str] = {
    "best_of": "Use n and choose among the answers.",
    "cache_salt": _OURS,
    "chat_template": "The deployment's own template is used; remove it.",
    "ec_transfer_params": _OURS,
    "fairlane_deadline": _BESIDE,
    "fairlane_priority": _BESIDE,
    "guided_choice": _USE_SCHEMA,
    "guided_grammar": _USE_SCHEMA,
    "guided_json": _USE_SCHEMA,
    "guided_regex": _USE_SCHEMA,
    "kv_transfer_params": _OURS,
    "logits_processors": "It would run code in the engine; remove it.",
    "media_io_kwargs": _NOT_SERVED,
    "mm_payload": _NOT_SERVED,
    "mm_processor_kwargs": _NOT_SERVED,
    "priority": "The lane decides what goes first; remove it.",
    "prompt_embeds": "Send text or token ids.",
    "prompt_logprobs": _NOT_SERVED,
    "request_id": "Use custom_id to recognise the answer; remove it.",
    "session_id": _OURS,
    "vllm_xargs": _NOT_SERVED,
}
_TEMPLATE_SWITCHES = frozenset({"enable_thinking", "thinking"})
_GRAMMARS = ("grammar", "regex", "structural_tag", "whitespace_pattern")

_Check = Callable[[Mapping[str, Any], Policy], Refusal | None]


def check_body(
    body: Mapping[str, Any], endpoint: str, models: Collection[str], policy: Policy
) -> Accepted | Refusal:
    """Judge one parsed request body; `models` are the names of the deployments."""
    for check in (_dangerous, _limits, _schema):
        refusal = check(body, policy)
        if refusal is not None:
            return refusal
    model = body.get("model")
    if model is None:
        return _missing("model")
    if not isinstance(model, str):
        return _wrong("model", "must be a string")
    if model not in models:
        return Refusal(
            "model_not_found", "No such model is deployed. GET /v1/models lists those that are.", "model"
        )
    refusal = _content(body, endpoint, policy)
    if refusal is not None:
        return refusal
    limits = [body[name] for name in _LIMIT_FIELDS if body.get(name) is not None]
    return Accepted(model, min(limits, default=None), body.get("n") or 1)


def _dangerous(body: Mapping[str, Any], _: Policy) -> Refusal | None:
    for name in body:
        if body[name] is None:
            continue
        if name in _REFUSED:
            return _unsupported(name, _REFUSED[name])
    if body.get("echo"):
        return _unsupported("echo", "The prompt is in your own file; remove it.")
    switches = body.get("chat_template_kwargs")
    if switches is not None and not (
        isinstance(switches, dict)
        and all(name in _TEMPLATE_SWITCHES and isinstance(value, bool) for name, value in switches.items())
    ):
        known = " and ".join(sorted(_TEMPLATE_SWITCHES))
        return _unsupported("chat_template_kwargs", f"Only {known} may be given, as true or false.")
    return None


def _limits(body: Mapping[str, Any], policy: Policy) -> Refusal | None:
    for name in _NUMBERS:
        value = body.get(name)
        largest = policy.choices if name == "n" else policy.output_limit_tokens
        if value is not None and not (type(value) is int and 1 <= value <= largest):
            return _wrong(name, f"must be a whole number from 1 to {largest}")
    stop = body.get("stop")
    strings = [stop] if isinstance(stop, str) else stop or []
    if (
        not isinstance(strings, list)
        or len(strings) > policy.stop_strings
        or not all(isinstance(text, str) and len(text) <= policy.stop_characters for text in strings)
    ):
        return _wrong(
            "stop",
            f"must be a string or at most {policy.stop_strings} strings,"
            f" each of at most {policy.stop_characters} characters",
        )
    return None


def _schema(body: Mapping[str, Any], policy: Policy) -> Refusal | None:
    for name in ("response_format", "structured_outputs"):
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, dict):
            return _wrong(name, "must be an object")
        if value.get("type") == "structural_tag":
            return _unsupported(f"{name}.type", _USE_SCHEMA)
        for grammar in _GRAMMARS:
            if value.get(grammar) is not None:
                return _unsupported(f"{name}.{grammar}", _USE_SCHEMA)
        if len(json.dumps(value)) > policy.schema_bytes:
            return _wrong(name, f"must be at most {policy.schema_bytes} bytes of JSON; simplify the schema")
    return None


def _content(body: Mapping[str, Any], endpoint: str, policy: Policy) -> Refusal | None:
    name, kind = _REQUIRED[endpoint]
    value = body.get(name)
    if value is None:
        return _missing(name)
    if not isinstance(value, list if name == "messages" else str | list) or not value:
        return _wrong(name, f"must be {kind} and not empty")
    if not isinstance(value, list):
        return None
    if name == "messages":
        if len(value) > policy.messages:
            return _wrong(name, f"must hold at most {policy.messages} messages")
        if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in value):
            return _wrong(name, "must hold objects, each with a role")
    return _fetched(value, name)


def _fetched(items: list[Any], name: str) -> Refusal | None:
    """Refuse media that the engine would have to fetch from an address of the client's choice."""
    for item in items:
        parts = item.get("content") if isinstance(item, dict) else None
        for part in parts if isinstance(parts, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if not isinstance(kind, str) or not kind.endswith(("_url", "_image")):
                continue
            source = part.get(kind, part.get("image_url"))
            address = source.get("url") if isinstance(source, dict) else source
            if not (isinstance(address, str) and address.startswith("data:")):
                return _unsupported(name, "Media is not fetched from addresses; send it as a data: URL.")
    return None


def _missing(param: str) -> Refusal:
    return Refusal("missing_required_parameter", f"{param} is missing. Add it.", param)


def _wrong(param: str, rule: str) -> Refusal:
    return Refusal("invalid_request", f"{param} {rule}.", param)


def _unsupported(param: str, remedy: str) -> Refusal:
    return Refusal("unsupported_parameter", f"{param} is not accepted. {remedy}", param)
