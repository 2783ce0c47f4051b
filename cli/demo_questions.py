"""The demo's questions: GSM8K, grade-school word problems with a number as the answer.

GSM8K's test questions are by OpenAI, under the MIT licence (github.com/openai/grade-school-math).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("data") / "gsm8k_test.jsonl.gz"
# Said before and after the question: so small a model forgets what stands far away.
_SYSTEM = "You answer with one short sentence that ends in a number."
_REMINDER = "Answer with one short sentence that ends in a number."
_OUTPUT_TOKENS = 96  # a small model that found no end goes on for ever
_ANSWER_MARK = "####"  # stands before the number in the data set's own solutions


@dataclass(frozen=True, slots=True)
class Question:
    custom_id: str
    text: str
    expected: str


def load_questions(count: int) -> list[Question]:
    """The first `count` questions, or all of them if there are fewer."""
    found: list[Question] = []
    with gzip.open(_FILE, "rt", encoding="utf-8") as file:
        for number, line in zip(range(1, count + 1), file, strict=False):
            entry = json.loads(line)
            expected = entry["answer"].rpartition(_ANSWER_MARK)[2].strip()
            found.append(Question(f"gsm8k-{number:04}", entry["question"], expected))
    return found


def write_requests(questions: Iterable[Question], model: str, target: Path) -> None:
    """Write the questions as the input file of a batch of chat completions."""
    with target.open("w", encoding="utf-8") as file:
        for question in questions:
            body = {
                "model": model,
                "messages": [
                    {"role": "system", "content": _SYSTEM},
                    {"role": "user", "content": f"{question.text}\n{_REMINDER}"},
                ],
                "max_tokens": _OUTPUT_TOKENS,
                "temperature": 0,
            }
            line = {
                "custom_id": question.custom_id,
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": body,
            }
            file.write(json.dumps(line) + "\n")


def read_answers(questions: Sequence[Question], output: Path) -> dict[str, str]:
    """Answers by custom_id, of these questions only, from the output file of their batch."""
    asked = {question.custom_id for question in questions}
    answers: dict[str, str] = {}
    with output.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            record = json.loads(line)
            response = record["response"]
            if record["custom_id"] in asked and response and response["status_code"] == 200:
                answers[record["custom_id"]] = response["body"]["choices"][0]["message"]["content"] or ""
    return answers
