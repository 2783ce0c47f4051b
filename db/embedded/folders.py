"""The two folders of an installation: the home (kept) and the run-time folder (sockets only).

The home is private. The run-time folder has a short path, because the path of a socket may have
only about 107 bytes, and it sits in a place that others may write to, so its owner is checked.
As root, PostgreSQL runs under another account: that account's group may pass through both
folders, but not list them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from db.embedded.binaries import can_run
from db.embedded.errors import EmbeddedError
from db.processes import Account

_PRIVATE = 0o700
_PASS_THROUGH = 0o710  # the group may enter, not list
_SUBFOLDERS = ("logs", "run")


def runtime_base(environ: Mapping[str, str]) -> Path:
    """The folder for run-time folders: XDG_RUNTIME_DIR, or /tmp.

    Root always takes /tmp: no other account can enter root's own XDG_RUNTIME_DIR.
    """
    if os.geteuid() != 0 and environ.get("XDG_RUNTIME_DIR"):
        return Path(environ["XDG_RUNTIME_DIR"])
    return Path("/tmp")  # noqa: S108 (short on purpose; prepare_runtime checks the owner)


def runtime_folder(home: Path, base: Path) -> Path:
    """The run-time folder of a home: one for each user and home, always the same."""
    mark = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:8]
    return base / f"fairlane-{os.geteuid()}-{mark}"


def prepare_home(home: Path, account: Account | None = None) -> None:
    """Make the home and its sub-folders where they are missing.

    Raises:
        EmbeddedError: the home is somebody else's, or `account` cannot reach it.
    """
    if not home.exists():
        home.mkdir(parents=True, mode=_PRIVATE)
    if home.stat().st_uid != os.geteuid():
        raise EmbeddedError(f"{home} belongs to another user; set FAIRLANE_HOME to a folder of your own")
    for name in _SUBFOLDERS:
        (home / name).mkdir(mode=_PRIVATE, exist_ok=True)
    if account is None or can_run(home, account):
        return
    os.chown(home, -1, account.gid)
    home.chmod(stat.S_IMODE(home.stat().st_mode) | stat.S_IXGRP)
    if not can_run(home, account):
        raise EmbeddedError(
            f"PostgreSQL cannot run as root; as {account.name!r} it cannot enter the folders above {home}. "
            "Set FAIRLANE_HOME to a folder that every account can reach (such as /var/lib/fairlane)"
        )


def prepare_runtime(folder: Path, account: Account | None) -> None:
    """Make the run-time folder, or accept the one that an earlier run left.

    Raises:
        EmbeddedError: it is not a folder, or not ours, or others may enter it.
    """
    mode = _PASS_THROUGH if account else _PRIVATE
    if not folder.parent.is_dir():
        raise EmbeddedError(f"there is no folder {folder.parent} for sockets; unset XDG_RUNTIME_DIR")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=mode)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise EmbeddedError(f"{folder} exists and is not a folder of this user; remove it")
    os.chown(folder, -1, account.gid if account else os.getegid())
    folder.chmod(mode)


def own_folder(folder: Path, account: Account | None) -> None:
    """Make a folder that only `account` (or we, if None) can use."""
    folder.mkdir(mode=_PRIVATE, exist_ok=True)
    if account is not None:
        os.chown(folder, account.uid, account.gid)
    folder.chmod(_PRIVATE)
