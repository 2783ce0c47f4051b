"""Time is the database's, or an argument. Only the places listed here may ask for the wall clock.

A monotonic clock measures how long something took and is free outside `lanes/`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture import sources

WALL_CLOCK = {
    "time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.ctime", "time.strftime",
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
    "uuid.uuid1", "uuid.uuid7", "uuid1", "uuid7",
}  # fmt: skip

# File: why the database's clock cannot serve there.
ALLOWED: dict[str, str] = {
    "workers/engines/simulated_answers.py": "`created` in an answer, where real engines put their clock too",
}


def dotted(node: ast.expr) -> str:
    """ "a.b.c" for a chain of names, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and dotted(node.value):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def clock_reads(path: Path) -> Iterator[str]:
    """Where a file names a wall clock, called or handed on, also when imported under its bare name."""
    bare = {found.rpartition(".")[2] for found in sources.imports(path) if found in WALL_CLOCK}
    for node in ast.walk(sources.tree(path)):
        if isinstance(node, ast.Attribute | ast.Name) and dotted(node) in WALL_CLOCK | bare:
            yield f"{sources.name(path)}:{node.lineno} {dotted(node)}"


def test_the_wall_clock_is_read_only_where_a_reason_is_given() -> None:
    found = {
        read
        for path in sources.files("db", "migrations", "api", "workers")
        if sources.name(path) not in ALLOWED
        for read in clock_reads(path)
    }
    assert found == set()


def test_no_exception_outlives_its_reason() -> None:
    assert {path for path in ALLOWED if not list(clock_reads(sources.ROOT / path))} == set()


def test_the_rules_have_no_clock_at_all() -> None:
    """`time` is outside the allow-list of lanes/ already; this closes the door of datetime."""
    assert {read for path in sources.files("lanes") for read in clock_reads(path)} == set()


def test_the_search_finds_clocks(tmp_path: Path) -> None:
    source = "import time\nfrom time import time_ns\nfrom datetime import datetime\n"
    source += "a = datetime.now\nb = time.time()\nc = time_ns()\nd = time.monotonic()\n"
    file = tmp_path / "edge.py"
    file.write_text(source)
    assert [read.split()[1] for read in clock_reads(file)] == ["datetime.now", "time.time", "time_ns"]
