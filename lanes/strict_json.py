"""JSON as the platform accepts it: one meaning for every reader, and a bounded cost.

Refused beyond the standard's own errors: a key given twice, NaN and infinities, lone
surrogates (no tokenizer can encode them), deep nesting, and more values than memory should
hold. Errors say where and what, never what stood there.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from lanes.policy import Policy

_SPACE = r"[ \t\n\r]*+"
_KEY = rf'{_SPACE}"((?:[^"\\\x00-\x1f]++|\\.)*+)"{_SPACE}:{_SPACE}'
_BLANK = re.compile(_SPACE)
_FIRST = re.compile(rf"{_SPACE}\{{(?:{_KEY}|{_SPACE}\}}{_SPACE}\Z)")
_NEXT = re.compile(rf"{_SPACE}(?:,{_KEY}|\}}{_SPACE}\Z)")
_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class BadJson(ValueError):
    """The text is not JSON that we accept; the message completes "the line ..."."""


class NotAnObject(ValueError):
    """The text is JSON, yet no object."""


class Member(NamedTuple):
    """A member of an object: its value and where that value's text begins and ends."""

    value: Any
    start: int
    end: int


def members(text: str, policy: Policy) -> dict[str, Member]:
    """The members of the one object that the text holds.

    Raises:
        BadJson: no JSON, or JSON that is refused.
        NotAnObject: some other JSON value.
    """
    _bound(text, policy)
    try:
        found = _members(text)
    except (BadJson, NotAnObject):
        raise
    except json.JSONDecodeError as error:
        raise _unexpected(error.pos) from error
    except ValueError as error:  # an integer of more digits than Python converts
        raise BadJson("holds a number that is too large") from error
    except RecursionError as error:  # under the depth limit only where the caller stands very deep itself
        raise BadJson("nests too deeply") from error
    if _SURROGATE.search(text):
        try:
            json.dumps([(key, member.value) for key, member in found.items()], ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise BadJson(r"holds half of a surrogate pair (a lone \ud800 to \udfff escape)") from error
    return found


def _members(text: str) -> dict[str, Member]:
    found: dict[str, Member] = {}
    match = _FIRST.match(text)
    if match is None:
        _refuse(text)
    while match[1] is not None:
        key = match[1]
        if "\\" in key:
            key = _DECODER.raw_decode(f'"{key}"')[0]
        if key in found:
            raise BadJson("gives the same key twice")
        start = match.end()
        value, end = _DECODER.raw_decode(text, start)
        found[key] = Member(value, start, end)
        match = _NEXT.match(text, end)
        if match is None:
            raise _unexpected(end)
    return found


def _refuse(text: str) -> NoReturn:
    """Say why the text does not begin like an object."""
    start = _end_of_blank(text, 0)
    if text.startswith("{", start):
        raise _unexpected(start + 1)
    _, end = _DECODER.raw_decode(text, start)
    end = _end_of_blank(text, end)
    raise NotAnObject if end == len(text) else _unexpected(end)


def _end_of_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _unexpected(position: int) -> BadJson:
    return BadJson(f"is not valid JSON: unexpected text near column {position + 1}")


def _bound(text: str, policy: Policy) -> None:
    """Refuse by counting, before anything is built."""
    openers = text.count("{") + text.count("[")
    if openers <= policy.json_depth and openers + text.count(",") <= policy.json_values:
        return
    bare = _STRINGS.sub("", text)
    if bare.count("{") + bare.count("[") + bare.count(",") > policy.json_values:
        raise BadJson(f"holds more than {policy.json_values:,} values")
    depth = 0
    for bracket in _BRACKETS.finditer(bare):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > policy.json_depth:
            raise BadJson(f"nests deeper than {policy.json_depth} levels")


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BadJson("gives the same key twice")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadJson("holds a number that is too large")
    return number


def _no_constant(_: str) -> NoReturn:
    raise BadJson("holds NaN or Infinity, which JSON does not have")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)
