"""The main job on real vLLM: questions in, answers out, and a kill -9 of the worker in between."""

from __future__ import annotations

import os
import signal
from collections import Counter

import psutil
import pytest

from cli.demo_questions import load_questions
from tests.e2e.platform import Platform, chat, some_done
from tests.eventually import eventually, runs

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]


def test_a_batch_survives_a_kill_of_its_worker(real: Platform) -> None:
    asked = enumerate(load_questions(60))
    batch = real.submit(chat(f"q{n}", one.text, max_tokens=48, temperature=0) for n, one in asked)
    real.wait(batch, until=some_done)
    worker = real.pid("worker")
    engine = [child.pid for child in psutil.Process(worker).children(recursive=True)]
    assert engine, "the engine runs in processes of its own"

    os.kill(worker, signal.SIGKILL)
    eventually(lambda: not any(runs(pid) for pid in engine), within_s=5)
    ended = real.wait(batch, within_s=240)

    assert ended.status == "completed"
    records = list(real.records(ended))
    assert Counter(record["custom_id"] for record in records) == Counter(f"q{n}" for n in range(60))
    answers = [record["response"]["body"]["choices"][0]["message"]["content"] for record in records]
    assert all(answer.strip() for answer in answers)
    assert len(set(answers)) > 50, "a real model says different things to different questions"
    assert ended.usage is not None
    assert ended.usage.output_tokens > 60


@pytest.mark.slow
def test_the_death_of_the_engine_alone_costs_no_line(real: Platform) -> None:
    lines = (chat(f"q{n}", one.text, max_tokens=48) for n, one in enumerate(load_questions(60)))
    batch = real.submit(lines)
    real.wait(batch, until=some_done)
    worker = real.pid("worker")
    children = psutil.Process(worker).children(recursive=True)
    [core] = [child for child in children if "EngineCore" in " ".join(child.cmdline())]

    core.kill()
    real.until_replaced("worker", worker)
    ended = real.wait(batch, within_s=240)

    assert ended.status == "completed"
    assert sorted(record["custom_id"] for record in real.records(ended)) == sorted(f"q{n}" for n in range(60))


def test_a_worker_that_still_loads_ends_within_five_seconds(real: Platform) -> None:
    before = real.pid("worker")
    os.kill(before, signal.SIGTERM)
    eventually(lambda: real.part("worker").pid not in (before, None), within_s=60)
    eventually(lambda: real.part("worker").state == "warming", within_s=60)
    warming = real.pid("worker")

    os.kill(warming, signal.SIGTERM)

    eventually(lambda: not runs(warming), within_s=5)
    real.until_replaced("worker", warming)
