"""The rules of the engine port, for every engine. The last test closes the engine."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import psutil
import pytest

from lanes.lane import Lane
from workers.engines.port import Engine, EngineDead, EngineRequest, Reply

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
_numbers = itertools.count()


def ask(endpoint: str = CHAT, lane: Lane = Lane.BULK, **body: Any) -> EngineRequest:
    return EngineRequest(f"test{next(_numbers)}", endpoint, body, lane)


def say(text: str, **fields: Any) -> EngineRequest:
    """A chat whose answer is `text`: the echo is forced on a real model by the only choice it has."""
    message = {"role": "user", "content": text}
    return ask(messages=[message], structured_outputs={"choice": [text]}, **fields)


def endless() -> EngineRequest:
    """A request that holds its seat for longer than any of these tests waits."""
    return ask(messages=[{"role": "user", "content": "long " * 1500}], max_tokens=500, ignore_eos=True)


def body_of(reply: Reply) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(reply.body)
    return body


@pytest.mark.parametrize(
    ("request_", "object_", "prefix"),
    [
        (ask(messages=[{"role": "user", "content": "Hello"}], max_tokens=8), "chat.completion", "chatcmpl-"),
        (ask(COMPLETIONS, prompt="Once upon a time", max_tokens=8), "text_completion", "cmpl-"),
        (ask(RESPONSES, input="Hello", max_output_tokens=8), "response", "resp_"),
    ],
    ids=["chat", "completions", "responses"],
)
async def test_an_answer_has_the_shape_of_its_endpoint(
    engine: Engine, request_: EngineRequest, object_: str, prefix: str
) -> None:
    reply = await engine.run(request_)
    body = body_of(reply)
    assert reply.status == 200
    assert body["object"] == object_
    assert body["id"] == prefix + request_.request_id
    assert body["model"] == "demo"
    assert 0 < reply.usage.output_tokens <= 8
    assert reply.usage.input_tokens > 0
    told = body["usage"]
    assert told["total_tokens"] == reply.usage.input_tokens + reply.usage.output_tokens


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (ask(), "messages"),
        (ask(messages="Hello"), "messages"),
        (ask(messages=[{"role": "user", "content": "Hello"}], max_tokens="many"), "max_tokens"),
        (ask(COMPLETIONS), "prompt"),
        (ask(COMPLETIONS, prompt="long " * 2100), "prompt"),
        (ask(RESPONSES), "input"),
        (ask("/v1/unknown", input="Hello"), "url"),
    ],
    ids=[
        "no-messages",
        "messages-no-list",
        "limit-no-number",
        "no-prompt",
        "too-long",
        "no-input",
        "endpoint",
    ],
)
async def test_a_bad_request_is_an_answer(engine: Engine, request_: EngineRequest, param: str) -> None:
    reply = await engine.run(request_)
    error = body_of(reply)["error"]
    assert reply.status == 400
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] in {param, "input_tokens"}  # vLLM names a prompt's length so
    assert error["message"]
    await engine.check()


async def test_every_caller_gets_its_own_answer(engine: Engine) -> None:
    texts = [f"item {number}" for number in range(5 * engine.seats)]
    replies = await asyncio.gather(*(engine.run(say(text)) for text in texts))
    answers = [body_of(reply)["choices"][0]["message"]["content"] for reply in replies]
    assert answers == texts


async def test_without_a_limit_the_answer_may_fill_the_context(engine: Engine) -> None:
    reply = await engine.run(ask(COMPLETIONS, prompt="a " * 2020, ignore_eos=True))
    assert reply.status == 200
    assert reply.usage.output_tokens > 16
    assert reply.usage.input_tokens + reply.usage.output_tokens <= engine.context_tokens


async def test_cancelling_the_caller_frees_its_seat(engine: Engine) -> None:
    holders = [asyncio.create_task(engine.run(endless())) for _ in range(engine.seats - 1)]
    await engine.run(say("the last seat"))  # answered, so the others are inside by now
    holders.append(asyncio.create_task(engine.run(endless())))
    waiting = asyncio.create_task(engine.run(say("next")))
    witness, *cancelled = holders
    for holder in cancelled:
        holder.cancel()
    ends = await asyncio.gather(*cancelled, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * len(cancelled)
    # Had their seats stayed taken, they would have come free with the witness's at the earliest.
    first, _ = await asyncio.wait([waiting, witness], return_when=asyncio.FIRST_COMPLETED)
    assert first == {waiting}
    assert waiting.result().status == 200
    witness.cancel()


async def test_closing_ends_what_is_in_flight_and_may_be_repeated(engine: Engine) -> None:
    flying = [asyncio.create_task(engine.run(endless())) for _ in range(2 * engine.seats)]
    await engine.run(ask(messages="refused, once the others are inside"))
    async with asyncio.timeout(15):
        await engine.close()
        ends = await asyncio.gather(*flying, return_exceptions=True)
    assert [type(end) for end in ends] == [EngineDead] * len(flying)
    await engine.close()
    with pytest.raises(EngineDead):
        await engine.check()
    with pytest.raises(EngineDead):
        await engine.run(say("too late"))
    left = [child for child in psutil.Process().children(recursive=True) if "VLLM" in child.name()]
    assert left == []
