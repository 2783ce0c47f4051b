"""Who may import whom, beyond what import-linter's contracts in pyproject.toml can say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.architecture import sources

# Pure parts of the standard library: no clock, no chance, no input or output.
PURE = {
    "__future__", "bisect", "collections", "dataclasses", "datetime", "enum", "functools", "hashlib", "heapq",
    "hmac", "itertools", "json", "math", "operator", "re", "typing", "uuid",
}  # fmt: skip
FOR_MIGRATIONS = ("db.tables", "db.settings.with_driver", "migrations")
HEAVY = ("vllm", "torch", "transformers")


def test_the_contracts_hold() -> None:
    linter = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    ran = subprocess.run(
        [sys.executable, "-c", linter], cwd=sources.ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_lanes_imports_only_pure_standard_library() -> None:
    found = {
        f"{sources.name(path)}: {dotted}"
        for path in sources.files("lanes")
        for dotted in sources.imports(path)
        if dotted.split(".")[0] not in PURE | {"lanes"}
    }
    assert not found


def test_migrations_see_only_tables() -> None:
    found = {
        f"{sources.name(path)}: {dotted}"
        for path in sources.files("migrations")
        for dotted in sources.imports(path)
        if dotted.split(".")[0] in sources.EVERYTHING and not dotted.startswith(FOR_MIGRATIONS)
    }
    assert not found


def test_only_the_vllm_engine_imports_vllm() -> None:
    found = {
        sources.name(path)
        for path in sources.files(*sources.PRODUCT)
        for dotted in sources.imports(path)
        if dotted.split(".")[0] in HEAVY
    }
    assert {path for path in found if not path.startswith("workers/engines/vllm/")} == set()


@pytest.mark.parametrize("package", ["bootstrap", "bench", "tests"])
def test_the_product_never_imports_what_surrounds_it(package: str) -> None:
    found = {
        f"{sources.name(path)}: {dotted}"
        for path in sources.files(*sources.PRODUCT)
        for dotted in sources.imports(path)
        if dotted.split(".")[0] == package
    }
    assert not found


def test_set_up_runs_before_anything_is_installed() -> None:
    """bootstrap.model runs inside .venv; the rest, and what it takes from db, may not need it."""
    before = [path for path in sources.files("bootstrap") if path.name != "model.py"]
    before += [sources.ROOT / "db/__init__.py", sources.ROOT / "db/settings.py"]
    found = {
        f"{sources.name(path)}: {dotted}"
        for path in before
        for dotted in sources.imports(path)
        if sources.outside(dotted)
        or (dotted.split(".")[0] in sources.PRODUCT and not dotted.startswith("db.settings"))
    }
    assert not found
