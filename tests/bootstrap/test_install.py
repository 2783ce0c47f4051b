"""What is taken from a wheel's metadata, and what an ended pip leaves behind."""

from __future__ import annotations

import zipfile
from pathlib import Path

from bootstrap import venv
from bootstrap.install import wheel_requirements
from bootstrap.pip import last_words


def test_requirements_come_from_the_wheel_without_extras_and_torch(tmp_path: Path) -> None:
    wheel = tmp_path / "thing-1-py3-none-any.whl"
    lines = [
        "Name: thing",
        "Requires-Dist: numpy",
        "Requires-Dist: torch==2.13.0+cpu; platform_machine == 'x86_64'",
        "Requires-Dist: torchaudio",
        "Requires-Dist: setuptools==78.1.1; python_version < '3.12'",
        "Requires-Dist: matplotlib; extra == 'bench'",
        "Requires-Dist: pandas ; python_version > '3' and extra=='bench'",
    ]
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("thing-1.dist-info/METADATA", "\n".join(lines) + "\n\n")
    assert wheel_requirements(wheel) == ["numpy", "setuptools==78.1.1; python_version < '3.12'"]


def test_what_pip_was_copying_when_it_was_killed_is_installed_again(tmp_path: Path) -> None:
    def package(name: str, record: str | None) -> Path:
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\n")
        if record is not None:
            (info / "RECORD").write_text(record)
        return info

    whole = package("whole", "whole/a.py,,\nwhole-1.dist-info/INSTALLER,sha256=x,4\n")
    copied = package("copied", "copied/a.py,,\ncopied-1.dist-info/METADATA,,\n")
    begun = package("begun", None)
    (tmp_path / "~hole").mkdir()
    venv.drop_half_installed(tmp_path)
    assert whole.exists()
    assert not copied.exists()
    assert not begun.exists()
    assert not (tmp_path / "~hole").exists()


def test_pip_is_quoted_without_its_remarks_on_absent_folders() -> None:
    noise = "WARNING: Location '/x' is ignored: it is neither a file nor a directory."
    assert last_words([noise, "ERROR: No matching distribution", noise]) == "ERROR: No matching distribution"
