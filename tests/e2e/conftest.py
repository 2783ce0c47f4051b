"""One simulated platform for the whole run, and a real one that leaves the cores when its tests end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.settings import cache_folder
from tests.e2e.platform import MODEL, Platform


@pytest.fixture(scope="session")
def simulated() -> Iterator[Platform]:
    """The whole platform on the simulated engine, whose answers repeat the questions."""
    settings = {"FAIRLANE_SIMULATED_ECHO": "1", "FAIRLANE_SIMULATED_SPEED": "4"}
    with Platform("--engine", "simulated", environment=settings) as platform:
        yield platform


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The demo model that the set-up prepared."""
    folder = cache_folder(os.environ) / "models" / MODEL
    assert (folder / "config.json").is_file(), f"{folder} is missing: `make setup` prepares it"
    return folder


@pytest.fixture(scope="module")
def real(model_folder: Path) -> Iterator[Platform]:
    """The whole platform on real vLLM with the demo model."""
    with Platform("--engine", "vllm", "--model", str(model_folder), warm_s=180) as platform:
        yield platform
