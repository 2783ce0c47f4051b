"""What must be true before anything is installed. Each check returns one sentence or None.

Read by any Python from 3.7 on, so that one that is too old can say so.
"""

from __future__ import annotations

import configparser
import importlib.util
import os
import shutil
import urllib.error
import urllib.request
from typing import Iterable, Mapping, Optional, Tuple

OLDEST = (3, 11)
NEWEST = (3, 14)
DEFAULT_INDEX = "https://pypi.org/simple"


def python_problem(version: Tuple[int, ...]) -> Optional[str]:
    """vLLM's builds exist for these versions, and Fairlane is written for the oldest of them."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return None
    has = ".".join(str(part) for part in version[:3])
    return (
        f"Fairlane needs Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}, and this is {has}; "
        "name another one, for example `make demo PYTHON=python3.12`."
    )


def venv_problem() -> Optional[str]:
    """Some distributions ship Python without the two modules that make a virtual environment."""
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return None
    return "This Python has no venv module; install it (on Debian and Ubuntu: `apt install python3-venv`)."


def existing_folder(path: str) -> str:
    """The path itself, or its nearest parent that exists."""
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def disk_problem(needs: Iterable[Tuple[str, int]]) -> Optional[str]:
    """Compare free space with needs in MB; folders on one file system share its free space."""
    wanted = {}  # type: dict[int, tuple[str, int]]
    for path, megabytes in needs:
        folder = existing_folder(path)
        device = os.stat(folder).st_dev
        first, total = wanted.get(device, (folder, 0))
        wanted[device] = (first, total + megabytes)
    for folder, megabytes in wanted.values():
        free = shutil.disk_usage(folder).free // 1_000_000
        if free < megabytes:
            has, asked = f"{free / 1000:.1f} GB free", f"{megabytes / 1000:.1f} GB"
            return f"The disk of {folder} has {has}, and set-up needs {asked} while it is at work."
    return None


def pip_setting(name: str, environ: Mapping[str, str], files: Iterable[str]) -> Optional[str]:
    """What pip itself would use: its environment variable, else the last of its files that says so."""
    value = environ.get("PIP_" + name.upper().replace("-", "_"))
    if value:
        return value
    parser = configparser.RawConfigParser()
    parser.read(files)
    for section in ("install", "global"):
        if parser.has_option(section, name):
            return parser.get(section, name)
    return None


def pip_files(environ: Mapping[str, str]) -> Tuple[str, ...]:
    """pip's own configuration files on Linux and macOS, the weakest first."""
    home = os.path.expanduser("~")
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:  # pip's way to say: read none of them
        return ()
    return (
        "/etc/xdg/pip/pip.conf",
        "/etc/pip.conf",
        os.path.join(home, ".pip", "pip.conf"),
        os.path.join(home, "Library", "Application Support", "pip", "pip.conf"),
        os.path.join(config, "pip", "pip.conf"),
    ) + ((named,) if named else ())


def index_problem(environ: Mapping[str, str], timeout_s: float = 15) -> Optional[str]:
    """Ask the package index that pip will use for one page. Any HTTP answer means that it is there."""
    files = pip_files(environ)
    if pip_setting("no-index", environ, files):
        return None
    index = (pip_setting("index-url", environ, files) or DEFAULT_INDEX).rstrip("/")
    if not index.startswith(("http://", "https://")):
        return None
    proxy = pip_setting("proxy", environ, files)
    through = {"http": proxy, "https": proxy} if proxy else None  # None: what the environment says
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(through))
    request = urllib.request.Request(index + "/pip/", method="HEAD")  # noqa: S310 - only http(s), see above
    try:
        opener.open(request, timeout=timeout_s).close()
    except urllib.error.HTTPError:
        return None
    except OSError as error:
        reason = getattr(error, "reason", error)
        if "CERTIFICATE" in str(reason):  # pip has its own certificates; these are not its
            return None
        return (
            f"The package index {without_secret(index)} cannot be reached ({reason}); "
            "set-up needs it, or another one named in PIP_INDEX_URL."
        )
    return None


def without_secret(url: str) -> str:
    """The URL without a user name and password, fit to be printed."""
    scheme, _, rest = url.partition("://")
    return scheme + "://" + rest.rpartition("@")[2]
