"""The demo's questions, its input file, and reading its output file."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from cli.demo_questions import Question, load_questions, read_answers, write_requests
from lanes.batch import Window
from lanes.jsonl import Line
from lanes.line import LineRules, ValidLine, check_line
from lanes.policy import DEFAULT


def test_the_whole_data_set_is_in_the_package() -> None:
    questions = load_questions(5000)
    assert len(questions) == 1319
    assert len({question.custom_id for question in questions}) == 1319
    assert all(question.expected.replace(",", "").lstrip("-").isdigit() for question in questions)
    assert load_questions(100) == questions[:100]


def test_every_request_is_one_that_ingest_accepts(tmp_path: Path) -> None:
    write_requests(load_questions(100), "m", tmp_path / "in.jsonl")
    rules = LineRules("/v1/chat/completions", frozenset({"m"}), Window("1h", timedelta(hours=1)), DEFAULT)
    lines = (tmp_path / "in.jsonl").read_bytes().splitlines()
    checked = [check_line(Line(number, line), rules) for number, line in enumerate(lines, 1)]
    assert len(checked) == 100
    assert [found for found in checked if not isinstance(found, ValidLine)] == []


def _record(custom_id: str, status: int, content: str) -> str:
    body = {"choices": [{"message": {"content": content}}]}
    return json.dumps(
        {"custom_id": custom_id, "response": {"status_code": status, "body": body}, "error": None},
        ensure_ascii=False,
    )


def test_an_answer_counts_once_and_only_for_a_question_that_was_asked(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    records = [
        _record("a", 200, "one\u2028two"),
        _record("a", 200, "again"),
        _record("b", 500, "no"),
        _record("x", 200, "not asked"),
        json.dumps({"custom_id": "c", "response": None, "error": {"code": "batch_expired"}}),
    ]
    output.write_text("\n".join(records) + "\n", encoding="utf-8")
    questions = [Question(custom_id, "?", "1") for custom_id in "abc"]
    assert read_answers(questions, output) == {"a": "again"}
