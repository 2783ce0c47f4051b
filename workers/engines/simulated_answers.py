"""What the simulated engine reads from a request and writes into its answer, in OpenAI's shapes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lanes.usage import Usage
from workers.engines.port import EngineRequest, Reply

LABEL = "[simulated]"
FINGERPRINT = "simulated"
# Without a limit, and without ignore_eos, an answer ends here as if the model had had its say.
_NATURAL_OUTPUT_TOKENS = 48
_CHARACTERS_PER_TOKEN = 4

_LIMIT_FIELDS = {
    "/v1/chat/completions": ("max_completion_tokens", "max_tokens"),
    "/v1/completions": ("max_tokens",),
    "/v1/responses": ("max_output_tokens",),
}


class BadRequestError(Exception):
    """The request cannot be answered; `param` names the field at fault."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer before it is timed: its text, the tokens it takes, and why it ends."""

    text: str
    input_tokens: int
    output_tokens: int
    finish_reason: str  # "stop" or "length"


def draft(request: EngineRequest, context_tokens: int, echo: bool) -> Draft:
    """Read the request and settle its answer; with `echo` the answer is the last user message.

    Raises:
        BadRequestError: a field is missing or of the wrong type, or the prompt fills the context.
    """
    prompt, last = _prompt(request)
    input_tokens = _count(prompt)
    room = context_tokens - input_tokens
    if room < 1:
        raise BadRequestError(
            f"The prompt has {input_tokens} tokens; this model's context is {context_tokens}.",
            _PROMPT_FIELDS[request.endpoint],
        )
    limit = min(_limit(request) or room, room)
    if echo:
        return Draft(last, input_tokens, _count(last), "stop")
    tokens = limit if request.body.get("ignore_eos") else min(limit, _NATURAL_OUTPUT_TOKENS)
    text = " ".join([LABEL, *(f"word{i}" for i in range(1, tokens))])
    return Draft(text, input_tokens, tokens, "length" if tokens == limit else "stop")


def reply(request: EngineRequest, answer: Draft, model: str) -> Reply:
    """The finished answer: status 200 and a body of the endpoint's own object."""
    usage = Usage(input_tokens=answer.input_tokens, output_tokens=answer.output_tokens)
    body = _BODIES[request.endpoint](request, answer, model)
    return Reply(200, json.dumps(body).encode(), usage)


def refusal(error: BadRequestError) -> Reply:
    """The answer to a request that cannot be answered: status 400 and OpenAI's error object."""
    content = {"message": str(error), "type": "invalid_request_error", "param": error.param, "code": None}
    return Reply(400, json.dumps({"error": content}).encode(), Usage())


def last_message(request: EngineRequest) -> str:
    """The last user message, or the prompt.

    Raises:
        BadRequestError: there is no prompt.
    """
    return _prompt(request)[1]


_PROMPT_FIELDS = {"/v1/chat/completions": "messages", "/v1/completions": "prompt", "/v1/responses": "input"}


def _prompt(request: EngineRequest) -> tuple[str, str]:
    """The whole prompt and its last user message."""
    field = _PROMPT_FIELDS.get(request.endpoint)
    if field is None:
        raise BadRequestError(f"This engine does not serve {request.endpoint}.", "url")
    value = request.body.get(field)
    if isinstance(value, str) and value and field != "messages":
        return value, value
    if isinstance(value, list) and value and field != "prompt" and all(isinstance(m, Mapping) for m in value):
        texts = [_text(message.get("content")) for message in value]
        users = [text for message, text in zip(value, texts, strict=True) if message.get("role") == "user"]
        return "\n".join(texts), users[-1] if users else ""
    raise BadRequestError(f"`{field}` is missing, empty or of the wrong type.", field)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return ""


def _limit(request: EngineRequest) -> int | None:
    for field in _LIMIT_FIELDS[request.endpoint]:
        value = request.body.get(field)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadRequestError(f"`{field}` must be a whole number of at least 1.", field)
        return value
    return None


def _count(text: str) -> int:
    """Tokens of a text by the rule of thumb of four characters each; never 0."""
    return max(1, -(-len(text) // _CHARACTERS_PER_TOKEN))


def _completion_usage(answer: Draft) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _chat_body(request: EngineRequest, answer: Draft, model: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    return {
        "id": f"chatcmpl-{request.request_id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": FINGERPRINT,
        "choices": [
            {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish_reason}
        ],
        "usage": _completion_usage(answer),
    }


def _completion_body(request: EngineRequest, answer: Draft, model: str) -> dict[str, Any]:
    return {
        "id": f"cmpl-{request.request_id}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": FINGERPRINT,
        "choices": [
            {"index": 0, "text": answer.text, "logprobs": None, "finish_reason": answer.finish_reason}
        ],
        "usage": _completion_usage(answer),
    }


def _response_body(request: EngineRequest, answer: Draft, model: str) -> dict[str, Any]:
    cut = answer.finish_reason == "length"
    status = "incomplete" if cut else "completed"
    message = {
        "id": f"msg_{request.request_id}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [{"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}],
    }
    return {
        "id": f"resp_{request.request_id}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": request.body.get("instructions"),
        "metadata": request.body.get("metadata"),
        "model": model,
        "system_fingerprint": FINGERPRINT,
        "output": [message],
        "parallel_tool_calls": True,
        "temperature": request.body.get("temperature"),
        "top_p": request.body.get("top_p"),
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        },
    }


_BODIES = {
    "/v1/chat/completions": _chat_body,
    "/v1/completions": _completion_body,
    "/v1/responses": _response_body,
}
