"""Each check says nothing on a good machine and one sentence on a bad one."""

from __future__ import annotations

import ast
import shutil
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bootstrap import checks


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 4), (3, 14, 1)])
def test_these_pythons_will_do(version: tuple[int, ...]) -> None:
    assert checks.python_problem(version) is None


@pytest.mark.parametrize("version", [(3, 8, 10), (3, 10, 14), (3, 15, 0)])
def test_other_pythons_are_named_with_the_remedy(version: tuple[int, ...]) -> None:
    sentence = checks.python_problem(version)
    assert sentence is not None
    assert ".".join(map(str, version)) in sentence
    assert "PYTHON=" in sentence


@pytest.mark.parametrize("file", ["__init__.py", "__main__.py", "checks.py"])
def test_an_old_python_can_read_what_runs_before_its_check(file: str) -> None:
    source = Path(checks.__file__).with_name(file).read_text()
    ast.parse(source, feature_version=(3, 7))


def test_needs_on_one_disk_are_added_up(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free // 1_000_000
    half = free * 2 // 3
    assert checks.disk_problem([(str(tmp_path), half)]) is None
    sentence = checks.disk_problem([(str(tmp_path), half), (str(tmp_path / "not/yet/there"), half)])
    assert sentence is not None
    assert f"{2 * half / 1000:.1f} GB" in sentence


def test_pip_is_asked_the_way_pip_asks(tmp_path: Path) -> None:
    weak, strong = tmp_path / "weak", tmp_path / "strong"
    weak.write_text("[global]\nindex-url = http://weak\nno-index = true\n")
    strong.write_text("[global]\nindex-url = http://strong\n")
    files = [str(weak), str(strong), str(tmp_path / "absent")]
    assert checks.pip_setting("index-url", {}, files) == "http://strong"
    assert checks.pip_setting("index-url", {"PIP_INDEX_URL": "http://named"}, files) == "http://named"
    assert checks.pip_setting("no-index", {}, files) == "true"
    assert checks.pip_files({"PIP_CONFIG_FILE": "/dev/null"}) == ()


class _Refuses(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_an_index_that_answers_anything_is_there() -> None:
    with HTTPServer(("127.0.0.1", 0), _Refuses) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            index = f"http://127.0.0.1:{server.server_port}/simple"
            assert checks.index_problem({"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": "/dev/null"}) is None
        finally:
            server.shutdown()
            thread.join()


def test_an_index_that_is_not_there_is_named_without_its_password() -> None:
    index = "http://me:hidden@127.0.0.1:9/simple"
    sentence = checks.index_problem({"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": "/dev/null"})
    assert sentence is not None
    assert "http://127.0.0.1:9/simple" in sentence
    assert "hidden" not in sentence
