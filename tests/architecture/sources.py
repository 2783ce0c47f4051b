"""The Python files of the repository, parsed once for all architecture tests."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("lanes", "db", "migrations", "api", "workers", "cli")
EVERYTHING = (*PRODUCT, "bench", "bootstrap", "tests")


def files(*packages: str) -> list[Path]:
    """Every Python file under the given top-level folders."""
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def name(path: Path) -> str:
    """The path as people write it: from the root of the repository, when it is below that."""
    return (path.relative_to(ROOT) if path.is_relative_to(ROOT) else path).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imports(path: Path) -> Iterator[str]:
    """Full dotted names that a file imports, anywhere in it; `from a import b` gives "a.b"."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}:{node.lineno} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def outside(dotted: str) -> bool:
    """Whether an import is neither ours nor the standard library's."""
    top = dotted.partition(".")[0]
    return top not in EVERYTHING and top not in sys.stdlib_module_names
