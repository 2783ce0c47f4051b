"""`fairlane batch` as users run it, in front of a whole Fairlane with the simulated engine."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import Command, request, write_lines

BAD = ["nope", "{}"]


@pytest.fixture
def good_file(tmp_path: Path) -> str:
    return write_lines(tmp_path / "good.jsonl", [request(f"r{number}") for number in range(20)])


@pytest.fixture
def bad_file(tmp_path: Path) -> str:
    lines = [request("first"), *BAD, request("second"), request("first")]
    return write_lines(tmp_path / "bad.jsonl", lines)


@pytest.fixture
def slow_file(tmp_path: Path) -> str:
    """Takes longer than any test."""
    return write_lines(
        tmp_path / "slow.jsonl", [request(f"r{number}", max_tokens=4000) for number in range(2000)]
    )


def test_submit_wait_and_fetch(fairlane: Command, good_file: str, tmp_path: Path) -> None:
    ended = fairlane("batch", "submit", good_file, "--window", "1h", "--wait")
    assert ended.returncode == 0, ended.stderr
    batch_id = ended.stdout.strip()  # nothing else is on standard output
    assert f"{batch_id} completed: 20 of 20 lines succeeded, 0 failed" in ended.stderr
    assert "\x1b" not in ended.stdout + ended.stderr

    printed = fairlane.here("batch", "results", batch_id).stdout
    records = [json.loads(line) for line in printed.splitlines()]
    assert {record["custom_id"] for record in records} == {f"r{number}" for number in range(20)}
    assert all(record["response"]["status_code"] == 200 for record in records)

    target = tmp_path / "out.jsonl"
    said = fairlane.json("batch", "results", batch_id, "--output", str(target))
    assert target.read_text() == printed
    assert said["bytes"] == len(printed.encode())
    assert list(tmp_path.glob("*.part")) == []

    listed = fairlane.json("batch", "list", "--limit", "1")["data"]
    assert [(batch["id"], batch["completion_window"]) for batch in listed] == [(batch_id, "1h")]
    assert fairlane.here("batch", "errors", batch_id).returncode == 0
    assert fairlane.here("batch", "watch", batch_id).returncode == 0


def test_a_refused_file_ends_with_2_and_names_its_lines(fairlane: Command, bad_file: str) -> None:
    ended = fairlane("batch", "submit", bad_file, "--wait")
    assert ended.returncode == 2
    assert "3 bad lines" in ended.stderr
    batch_id = ended.stdout.strip()
    found = fairlane.json("batch", "errors", batch_id)
    assert found["total"] == 3
    assert [(error["line"], error["code"]) for error in found["data"]] == [
        (2, "invalid_json_line"),
        (3, "missing_required_parameter"),
        (5, "duplicate_custom_id"),
    ]
    table = fairlane.here("batch", "errors", batch_id).stdout
    assert [line.split()[:2] for line in table.splitlines()[1:]] == [
        ["2", "invalid_json_line"],
        ["3", "missing_required_parameter"],
        ["5", "duplicate_custom_id"],
    ]
    assert fairlane.here("batch", "results", batch_id).returncode == 2


def test_the_whole_list_of_errors_can_be_fetched(fairlane: Command, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "many.jsonl", ["{}"] * 1200)
    batch_id = fairlane.here("batch", "submit", file, "--wait").stdout.strip()
    shown = fairlane.here("batch", "errors", batch_id)
    assert len(shown.stdout.splitlines()) == 1 + 1000
    assert "1200 lines refused; the first 1000 are shown, --all fetches every one" in shown.stderr
    everything = fairlane.here("batch", "errors", "--all", batch_id).stdout.splitlines()
    assert [json.loads(line)["line"] for line in everything] == list(range(1, 1201))


def test_skip_bad_runs_the_good_lines_and_ends_with_1(fairlane: Command, bad_file: str) -> None:
    ended = fairlane("batch", "submit", bad_file, "--skip-bad", "--wait", "--json")
    assert ended.returncode == 1
    batch = json.loads(ended.stdout)
    assert batch["request_counts"] == {"total": 5, "completed": 2, "failed": 3}
    results = fairlane.here("batch", "results", batch["id"])
    assert results.returncode == 0
    assert {json.loads(line)["custom_id"] for line in results.stdout.splitlines()} == {"first", "second"}
    failed = fairlane.here("batch", "errors", batch["id"])
    assert "3 lines failed" in failed.stderr
    assert "duplicate_custom_id" in failed.stdout


def test_a_running_batch_has_no_results_yet_and_can_be_cancelled(fairlane: Command, slow_file: str) -> None:
    batch_id = fairlane.here("batch", "submit", slow_file).stdout.strip()
    early = fairlane("batch", "results", batch_id)
    assert early.returncode == 4
    assert early.stdout == ""
    assert fairlane.json("batch", "cancel", batch_id)["status"] == "cancelling"
    ended = fairlane("batch", "watch", batch_id)
    assert ended.returncode == 1
    assert f"{batch_id} cancelled" in ended.stderr
    again = fairlane.here("batch", "cancel", batch_id)
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1


def test_ctrl_c_stops_watching_and_not_the_batch(fairlane: Command, slow_file: str) -> None:
    watching = subprocess.Popen(
        fairlane.line("batch", "submit", slow_file, "--wait"),
        env=fairlane.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    assert watching.stderr is not None
    batch_id = watching.stdout.readline().strip()
    watching.stderr.readline()  # the first line of progress: it watches
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=30)
    assert watching.returncode == 130
    assert "goes on" in said
    assert "Traceback" not in said
    assert fairlane.json("batch", "cancel", batch_id)["status"] == "cancelling"


def test_one_sentence_for_each_wrong_input(fairlane: Command, good_file: str, tmp_path: Path) -> None:
    text = write_lines(tmp_path / "good.txt", [request("a")])
    wrong = {
        "cannot read": ("submit", str(tmp_path / "missing.jsonl")),
        "Must be .jsonl": ("submit", text),
        "is no window": ("submit", good_file, "--window", "1y"),
        "'endpoint'": ("submit", good_file, "--endpoint", "/v1/nothing"),
        "No such batch": ("watch", "batch_0"),
    }
    for sentence, arguments in wrong.items():
        ended = fairlane.here("batch", *arguments)
        assert (ended.returncode, ended.stdout) == (2, ""), arguments
        assert sentence in ended.stderr
        assert ended.stderr.count("\n") == 1


def test_an_api_out_of_reach_or_a_wrong_key_ends_with_3(fairlane: Command) -> None:
    away = fairlane("batch", "list", OPENAI_BASE_URL="http://127.0.0.1:1/v1", OPENAI_API_KEY="k")
    assert away.returncode == 3
    assert "cannot reach the API at http://127.0.0.1:1/v1" in away.stderr
    base_url = fairlane.json("env")["OPENAI_BASE_URL"]
    refused = fairlane("batch", "list", OPENAI_BASE_URL=base_url, OPENAI_API_KEY="fl_wrong")
    assert refused.returncode == 3
    assert "API key" in refused.stderr
    for ended in (away, refused):
        assert ended.stderr.count("\n") == 1


def test_an_upload_longer_than_a_piece_arrives_whole(fairlane: Command, tmp_path: Path) -> None:
    """The progress reader in between must not lose or double a byte."""
    line = json.loads(request("long"))
    line["body"]["messages"][0]["content"] = "x" * (9 << 20)
    file = write_lines(tmp_path / "long.jsonl", [json.dumps(line)])
    submitted = fairlane.json("batch", "submit", file)
    listed = fairlane.here("batch", "watch", submitted["id"], "--json")
    assert json.loads(listed.stdout)["request_counts"]["total"] == 1
