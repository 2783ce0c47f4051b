"""Batch files of real questions (GSM8K, see cli/data/README.md)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from bench.facts import ROOT

QUESTIONS = ROOT / "cli" / "data" / "gsm8k_test.jsonl.gz"


def questions() -> list[str]:
    """All 1,319 questions, in the order of the file."""
    with gzip.open(QUESTIONS, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["question"] for line in lines]


def write_batch(path: Path, texts: Sequence[str], *, model: str, output_tokens: int) -> Path:
    """A batch file of chats that each give exactly `output_tokens` tokens, greedily."""
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            body = {
                "model": model,
                "messages": [{"role": "user", "content": text}],
                "max_tokens": output_tokens,
                "ignore_eos": True,
                "temperature": 0,
            }
            line = {
                "custom_id": f"q{number}",
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": body,
            }
            file.write(json.dumps(line) + "\n")
    return path
