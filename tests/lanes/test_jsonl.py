from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lanes.jsonl import Line, LineSplitter

LIMIT = 12
BOM = b"\xef\xbb\xbf"
# Pieces that have broken other splitters: line ends of all kinds, marks, invalid bytes, long runs.
FRAGMENTS = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b"\r",
        b" ",
        b"\t",
        b"a",
        b"{}",
        BOM,
        "\u2028".encode(),
        "\u0085".encode(),
        b"\xff",
        b"x" * 9,
    ]
)
FILES = st.lists(FRAGMENTS, max_size=40).map(b"".join)


def split(data: bytes, cuts: list[int], limit: int = LIMIT) -> list[Line]:
    splitter = LineSplitter(limit)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    found = [line for start, end in pairwise(edges) for line in splitter.feed(data[start:end])]
    return [*found, *splitter.finish()]


def by_definition(data: bytes) -> list[Line]:
    """What the lines are, written without any regard to chunks or memory."""
    found = []
    for number, raw in enumerate(data.removeprefix(BOM).split(b"\n"), start=1):
        content = raw.removesuffix(b"\r")
        if len(content) > LIMIT:
            found.append(Line(number, None))
        elif content.strip(b" \t\r"):
            found.append(Line(number, content))
    return found


@given(FILES, st.lists(st.integers(min_value=0), max_size=12))
def test_chunks_never_change_the_lines(data: bytes, cuts: list[int]) -> None:
    assert split(data, cuts) == by_definition(data)


@given(FILES)
def test_byte_by_byte_gives_the_same_lines(data: bytes) -> None:
    assert split(data, list(range(len(data)))) == by_definition(data)


def test_crlf_cut_at_every_border() -> None:
    data = b"one\r\n\r\ntwo\r\n"
    for cut in range(len(data) + 1):
        assert split(data, [cut]) == [Line(1, b"one"), Line(3, b"two")]


def test_blank_lines_count_but_are_skipped() -> None:
    assert split(b"\n \t\r\na\n\n\nb", []) == [Line(3, b"a"), Line(6, b"b")]


def test_only_a_line_feed_ends_a_line() -> None:
    text = '"\u2028\u2029\u0085\x0b\x0c"'.encode()
    assert split(text, [], limit=100) == [Line(1, text)]


def test_a_line_of_exactly_the_limit_passes_and_one_byte_more_does_not() -> None:
    exact, longer = b"x" * LIMIT, b"x" * (LIMIT + 1)
    assert split(BOM + exact + b"\r\n" + longer + b"\r\n" + exact, []) == [
        Line(1, exact),
        Line(2, None),
        Line(3, exact),
    ]


def test_an_over_long_line_is_not_kept() -> None:
    splitter = LineSplitter(1_000)
    for _ in range(1_000):
        assert list(splitter.feed(b"x" * 1_000)) == []
        assert sum(map(len, splitter._parts)) <= 2_000
    assert list(splitter.feed(b"\nnext\n")) == [Line(1, None), Line(2, b"next")]
