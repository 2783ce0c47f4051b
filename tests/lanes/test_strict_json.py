from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.policy import DEFAULT
from lanes.strict_json import BadJson, NotAnObject, members

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=5)
LAYOUTS = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])


@given(OBJECTS, LAYOUTS)
def test_values_and_their_texts_are_those_of_the_object(
    value: dict[str, Any], layout: dict[str, Any]
) -> None:
    text = f" {json.dumps(value, **layout)}\t"
    found = members(text, DEFAULT)
    assert {key: member.value for key, member in found.items()} == value
    for key, member in found.items():
        assert json.loads(text[member.start : member.end]) == value[key]
        assert text[member.start : member.end].strip() == text[member.start : member.end]


@given(st.text(alphabet='{}[]",: \\u0ab1e-.ntrfls', max_size=24))
def test_accepts_nothing_that_the_standard_library_refuses(text: str) -> None:
    try:
        found = {key: member.value for key, member in members(text, DEFAULT).items()}
    except (BadJson, NotAnObject):
        return
    assert json.loads(text) == found


@given(OBJECTS, st.integers(min_value=0), st.characters())
def test_a_damaged_object_is_judged_as_the_standard_library_does(
    value: dict[str, Any], where: int, what: str
) -> None:
    text = json.dumps(value)
    text = text[: where % len(text)] + what + text[where % len(text) + 1 :]
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except ValueError:
        with pytest.raises(BadJson):
            members(text, DEFAULT)
        return
    keys = [key for key, _ in pairs]
    # The damage may also have made a key twice, a huge number or half a surrogate pair.
    assert keys_of(text) in (keys, "refused")


def keys_of(text: str) -> list[str] | str:
    try:
        return list(members(text, DEFAULT))
    except BadJson as error:
        return "not JSON" if "valid JSON" in str(error) else "refused"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "same key twice"),
        ('{"a": 1, "\\u0061": 2}', "same key twice"),
        ('{"b": [{"a": 1, "a": 2}]}', "same key twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": [-Infinity]}', "NaN or Infinity"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5_000 + "}", "too large"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"\\uDFFF": 1}', "surrogate"),
        ('{"a": ' + "[" * 65 + "]" * 65 + "}", "deeper than 64"),
        ('{"a": ' + "[" * 100_000, "deeper than 64"),
        ('{"a": 1} {"b": 2}', "near column 8"),
        ('{"a" 1}', "column 2"),
        ("{", "column 2"),
        ("", "column 1"),
        ("\ufeff{}", "column 1"),
    ],
)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(BadJson, match=why):
        members(text, DEFAULT)


@pytest.mark.parametrize("text", ["[1, 2]", '"hi"', "null", " 7 "])
def test_other_values_are_no_objects(text: str) -> None:
    with pytest.raises(NotAnObject):
        members(text, DEFAULT)


def test_too_many_values_are_refused_and_commas_in_prose_are_not_counted() -> None:
    policy = replace(DEFAULT, json_values=100)
    assert members(json.dumps({"a": "[{," * 500}), policy)["a"].value == "[{," * 500
    with pytest.raises(BadJson, match="more than 100 values"):
        members(json.dumps({"a": [0] * 200}), policy)


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert members(r'{"a": "\ud83d\ude00"}', DEFAULT)["a"].value == "\U0001f600"
