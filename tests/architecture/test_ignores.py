"""Every comment that silences a checker says why."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.architecture import sources

SILENCER = re.compile(
    r"#\s*(?:noqa(?::\s*[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*)?|type:\s*ignore(?:\[[\w,\s-]*\])?)(?P<after>.*)"
)
REASON = re.compile(r"[\s#:,(-]*(?:\w+\W+)+\w+")  # two words or more


def unexplained(source: str) -> Iterator[str]:
    """Silencing comments without a reason; a reason after a second silencer on the line serves both."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and (found := SILENCER.search(token.string)):
            after = found["after"]
            while again := SILENCER.search(after):
                after = again["after"]
            if not REASON.match(after):
                yield f"{token.start[0]} {token.string}"


def test_every_ignore_carries_its_reason() -> None:
    found = {
        f"{sources.name(path)}:{comment}"
        for path in sources.files(*sources.EVERYTHING)
        for comment in unexplained(path.read_text())
    }
    assert found == set()


@pytest.mark.parametrize(
    ("comment", "silent"),
    [
        ("# noqa", True),
        ("# noqa: S310", True),
        ("# type: ignore[attr-defined]", True),
        ("# type: ignore[attr-defined]  # noqa: S310", True),
        ("# noqa: S310, B008 - the scheme is checked above", False),
        ("# type: ignore[misc]  # celery has no types", False),
        ("# an ordinary remark", False),
    ],
)
def test_the_search_tells_reasons_from_codes(comment: str, *, silent: bool) -> None:
    assert bool(list(unexplained(f"x = 1  {comment}\n"))) is silent
