"""Sizes and names: files that fit in a head, and none that gathers leftovers."""

from __future__ import annotations

import ast

from tests.architecture import sources

FILE_LINES = 400
FUNCTION_LINES = 70
LEFTOVERS = {"utils", "util", "helpers", "helper", "common", "misc", "shared"}


def test_files_are_short() -> None:
    lengths = {
        sources.name(path): len(path.read_text().splitlines()) for path in sources.files(*sources.EVERYTHING)
    }
    assert {path: length for path, length in lengths.items() if length > FILE_LINES} == {}


def test_functions_are_short() -> None:
    lengths = {
        f"{sources.name(path)}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in sources.files(*sources.EVERYTHING)
        for node in ast.walk(sources.tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {function: length for function, length in lengths.items() if length > FUNCTION_LINES} == {}


def test_no_file_is_named_for_leftovers() -> None:
    named = {sources.name(path) for path in sources.files(*sources.EVERYTHING) if path.stem in LEFTOVERS}
    named |= {
        sources.name(folder)
        for package in sources.EVERYTHING
        for folder in (sources.ROOT / package).rglob("*")
        if folder.is_dir() and folder.name in LEFTOVERS
    }
    assert named == set()
