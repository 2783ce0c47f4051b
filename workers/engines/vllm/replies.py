"""What vLLM's serving classes return or raise, as replies of the port."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from vllm.entrypoints.openai.responses.protocol import ResponsesResponse
from vllm.entrypoints.serve.engine.protocol import ErrorResponse
from vllm.entrypoints.serve.exception_handling.error_response import create_error_response
from vllm.exceptions import VLLMValidationError

from lanes.usage import Usage
from workers.engines.port import EngineRequest, Reply

_logger = logging.getLogger(__name__)

_SERVER_MESSAGE = "The engine failed on this request."


def reply_of(answer: Any) -> Reply:
    """A reply from the object that a serving class returned."""
    if isinstance(answer, ErrorResponse):
        error = answer.error
        return _error(error.code, error.message, error.param)
    usage = _response_usage(answer) if isinstance(answer, ResponsesResponse) else _completion_usage(answer)
    return Reply(200, answer.model_dump_json(by_alias=True).encode(), usage)


def refused(error: Exception, request: EngineRequest) -> Reply:
    """A reply from what a serving class, or the parsing of the request, raised.

    vLLM's messages on a client's mistake speak of the request and are passed on; the text of any
    other exception stays in the log, as it may show the engine's insides.
    """
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = _place(first["loc"], request.body, missing=first["type"] == "missing")
        message = first["msg"].removeprefix("Value error, ")
        return _error(400, f"{place}: {message}" if place else message, place or None)
    if isinstance(error, VLLMValidationError):
        # Its text ends in a dump of the parameter and the value: the first argument is the sentence.
        return _error(400, str(error.args[0]), error.parameter)
    if isinstance(error, TypeError):
        # vLLM treats any of these as the client's mistake, but the words are Python's.
        _logger.warning("request %s failed in vLLM: %r", request.request_id, error)
        return _error(400, "A field of this request has a value of the wrong type.", None)
    known = create_error_response(error).error
    if known.code >= 500:
        _logger.error("request %s failed in vLLM", request.request_id, exc_info=error)
    return _error(known.code, known.message, known.param)


def unknown_endpoint(endpoint: str) -> Reply:
    """The reply for an endpoint that this engine does not serve."""
    return _error(400, f"This engine does not serve {endpoint}.", "url")


def _place(location: Sequence[int | str], body: Any, *, missing: bool) -> str:
    """The field at fault as OpenAI writes it (`messages[0].content`).

    Pydantic's location also names the classes and types that it tried; only what is in the body
    stays, and the last part of the path to a missing field.
    """
    place, value = "", body
    for position, part in enumerate(location):
        if isinstance(part, int) and isinstance(value, list) and part < len(value):
            place, value = f"{place}[{part}]", value[part]
        elif isinstance(value, Mapping) and (part in value or (missing and position == len(location) - 1)):
            place, value = f"{place}.{part}" if place else str(part), value.get(part)
    return place


def _error(status: int, message: str, param: str | None) -> Reply:
    if status == 422:
        status = 400  # official clients treat bad input as 400
    server_side = status >= 500
    error = {
        "message": _SERVER_MESSAGE if server_side else message,
        "type": "server_error" if server_side else "invalid_request_error",
        "param": param,
        "code": None,
    }
    return Reply(status, json.dumps({"error": error}).encode(), Usage())


def _completion_usage(answer: Any) -> Usage:
    usage = answer.usage
    prompt, output = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens,
        cached_tokens=(prompt.cached_tokens or 0) if prompt else 0,
        output_tokens=usage.completion_tokens or 0,
        reasoning_tokens=output.reasoning_tokens if output else 0,
    )


def _response_usage(answer: Any) -> Usage:
    usage = answer.usage
    if usage is None:
        return Usage()
    return Usage(
        input_tokens=usage.input_tokens,
        cached_tokens=usage.input_tokens_details.cached_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.output_tokens_details.reasoning_tokens,
    )
