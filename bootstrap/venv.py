"""Make `.venv`, or take up the one that an interrupted run left behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bootstrap.checks import NEWEST, OLDEST


def ready(venv: Path) -> bool:
    """Whether its Python still exists; a removed system Python leaves a dangling link."""
    return (venv / "bin/python").exists()


def make_or_mend(venv: Path, lock: int) -> None:
    """Afterwards `venv` has a Python of a right version with a working pip.

    `lock` goes to the child, which after a kill -9 of ours may still be at work.

    Raises:
        subprocess.CalledProcessError: Python could not make it; its output is in the error.
    """
    if usable(venv):
        for packages in venv.glob("lib/python3.*/site-packages"):
            drop_half_installed(packages)
        if usable(venv):
            return
    subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(venv)],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=[lock],
    )


def usable(venv: Path) -> bool:
    """Whether it stands where it was made, with a right Python and a whole pip."""
    if not ready(venv) or not (venv / "pyvenv.cfg").exists() or moved(venv):
        return False
    code = "import sys, importlib.metadata as m; m.version('pip'); print(*sys.version_info[:2])"
    asked = subprocess.run(
        [str(venv / "bin/python"), "-I", "-c", code], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        return False
    major, minor = map(int, asked.stdout.split())
    return OLDEST <= (major, minor) <= NEWEST


def moved(venv: Path) -> bool:
    """Whether it was made under another path, which its commands still carry."""
    lines = (venv / "pyvenv.cfg").read_text().splitlines()
    made_by = [line for line in lines if line.startswith("command = ")]
    return bool(made_by) and not made_by[0].endswith(str(venv))


def drop_half_installed(packages: Path) -> None:
    """Make pip install again what it was copying, or moving away, when it was killed.

    pip writes a package's final RECORD last, and that one names the INSTALLER file, which the
    wheel's own RECORD never does. While it replaces a package, the old one lies under a name
    that begins with a tilde.
    """
    for info in packages.glob("*.dist-info"):
        record = info / "RECORD"
        if not record.exists() or "/INSTALLER," not in record.read_text(errors="replace"):
            shutil.rmtree(info)
    for left in packages.glob("~*"):
        shutil.rmtree(left, ignore_errors=True)
