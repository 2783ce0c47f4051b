"""One line of a batch's input file: a valid request, or the one error that explains it.

The codes are those that OpenAI and Azure publish for batches, with a few of our own. Messages
say what to do next; they may show a custom_id, shortened, but never any other input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from lanes.batch import Window, completion_window
from lanes.body import Refusal, check_body
from lanes.jsonl import Line
from lanes.policy import Policy
from lanes.prefix import prefix_group
from lanes.strict_json import BadJson, Member, NotAnObject, members


@dataclass(frozen=True, slots=True)
class LineRules:
    endpoint: str  # of the batch; every line must name it
    models: frozenset[str]  # names of the deployments
    window: Window  # of the batch
    policy: Policy


class ValidLine(NamedTuple):
    line: int
    custom_id: str
    model: str
    body: bytes  # exactly as it stood in the line
    output_limit: int | None  # tokens for each choice
    choices: int
    prefix: int  # lines whose prompts begin alike have the same number
    deadline_seconds: int | None  # from the creation of the batch; None: the batch's window
    rank: int  # among the jobs of the batch; a lower one runs first


class LineError(NamedTuple):
    line: int  # physical, from 1
    code: str
    message: str
    param: str | None
    custom_id: str | None = None  # when it could be read


_DEADLINE, _PRIORITY = "fairlane_deadline", "fairlane_priority"
_SHAPE = "It must be one JSON object with custom_id, method, url and body."


def check_line(line: Line, rules: LineRules) -> ValidLine | LineError:
    """Judge one line. The first thing found wrong is the error."""
    number, data = line
    if data is None:
        limit = rules.policy.line_bytes >> 20
        return LineError(number, "line_too_long", f"The line is longer than {limit} MiB. Shorten it.", None)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return LineError(
            number,
            "invalid_utf8",
            f"The line is not UTF-8 at byte {error.start + 1}. Save the file as UTF-8.",
            None,
        )
    try:
        found = members(text, rules.policy)
    except NotAnObject:
        return LineError(number, "invalid_request", f"The line is no JSON object. {_SHAPE}", None)
    except BadJson as error:
        return LineError(number, "invalid_json_line", f"The line {error}. {_SHAPE}", None)

    refusal = _check_custom_id(found.get("custom_id"), rules.policy)
    if refusal is not None:
        return LineError(number, refusal.code, refusal.message, refusal.param)
    custom_id: str = found["custom_id"].value
    refusal = _check_frame(found, rules) or _check_wishes(found, rules)
    if refusal is not None:
        return LineError(number, refusal.code, refusal.message, refusal.param, custom_id)
    body = found["body"]
    verdict = check_body(body.value, rules.endpoint, rules.models, rules.policy)
    if isinstance(verdict, Refusal):
        param = f"body.{verdict.param}" if verdict.param else "body"
        # Most messages begin with the name of the field, as the body's reader sees it.
        named = verdict.param is not None and verdict.message.startswith(verdict.param)
        message = f"body.{verdict.message}" if named else verdict.message
        return LineError(number, verdict.code, message, param, custom_id)
    whole = len(text) == len(data)  # all ASCII: characters are bytes, and no copy of the text is made
    exact = data[body.start : body.end] if whole else text[body.start : body.end].encode()
    return ValidLine(
        number,
        custom_id,
        verdict.model,
        exact,
        verdict.output_limit,
        verdict.choices,
        prefix_group(body.value, rules.policy),
        _deadline_seconds(found),
        _value(found, _PRIORITY) or 0,
    )


def _check_custom_id(member: Member | None, policy: Policy) -> Refusal | None:
    value: Any = member.value if member else None
    if value is None:
        return _missing("custom_id")
    if not isinstance(value, str) or not value or "\0" in value:
        return Refusal(
            "invalid_request", "custom_id must be a string, not empty and without U+0000.", "custom_id"
        )
    if len(value.encode()) > policy.custom_id_bytes:
        return Refusal(
            "invalid_request", f"custom_id must have at most {policy.custom_id_bytes} bytes.", "custom_id"
        )
    return None


def _check_frame(found: dict[str, Member], rules: LineRules) -> Refusal | None:
    values = {name: _value(found, name) for name in ("method", "url", "body")}
    for name, value in values.items():
        if value is None:
            return _missing(name)
    if values["method"] != "POST":
        return Refusal("invalid_request", 'method must be "POST".', "method")
    if values["url"] != rules.endpoint:
        return Refusal(
            "url_mismatch", f"url must be the batch's endpoint, {rules.endpoint}, in every line.", "url"
        )
    body = values["body"]
    if not isinstance(body, dict):
        return Refusal("invalid_request", "body must be a JSON object, not a string or a list.", "body")
    if body.get("stream"):
        return Refusal(
            "unsupported_parameter", "body.stream is not accepted in a batch. Remove it.", "body.stream"
        )
    return None


def _check_wishes(found: dict[str, Member], rules: LineRules) -> Refusal | None:
    """What a line may ask of the queue. One that is misspelt must not be passed over in silence."""
    for name in found:
        if name.startswith("fairlane_") and name not in (_DEADLINE, _PRIORITY):
            message = f"A line may have {_DEADLINE} and {_PRIORITY}, and no other fairlane_ field. Remove it."
            return Refusal("unsupported_parameter", message, None)
    text = _value(found, _DEADLINE)
    if text is not None:
        deadline = completion_window(text) if isinstance(text, str) else None
        if deadline is None or deadline.lasts > rules.window.lasts:
            message = (
                f'{_DEADLINE} must be a whole number and one of s, m, h, d, such as "15m", and at most the'
                f" batch's completion window, {rules.window.text}."
            )
            return Refusal("invalid_request", message, _DEADLINE)
    rank, limit = _value(found, _PRIORITY), rules.policy.rank_limit
    if rank is not None and not (type(rank) is int and -limit <= rank <= limit):
        message = f"{_PRIORITY} must be a whole number from -{limit} to {limit}; a lower one runs first."
        return Refusal("invalid_request", message, _PRIORITY)
    return None


def _deadline_seconds(found: dict[str, Member]) -> int | None:
    text = _value(found, _DEADLINE)
    deadline = None if text is None else completion_window(text)
    return None if deadline is None else int(deadline.lasts.total_seconds())


def _value(found: dict[str, Member], name: str) -> Any:
    return found[name].value if name in found else None


def _missing(param: str) -> Refusal:
    return Refusal("missing_required_parameter", f"{param} is missing. {_SHAPE}", param)
