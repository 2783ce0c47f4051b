"""Jobs are shown, listed, waited for and followed; here those of a batch, moved by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from db import reports, sweeps
from db.keys import create_key
from db.objects import Objects
from lanes.ids import Prefix, spell
from lanes.job import ClaimedJob
from lanes.report import Finished
from lanes.usage import Usage
from tests.api.conftest import app_in_this_process, error_of
from tests.world import World

WAIT_S = 60  # the longest that may be asked for: a slow machine ends in time, a broken wait does not


@pytest.fixture
async def tenant_id(world: World) -> UUID:
    return await world.tenant()


@pytest.fixture
async def http(
    world: World, tenant_id: UUID, database_url: str, tmp_path: Path
) -> AsyncIterator[httpx.AsyncClient]:
    async with world.database.begin() as connection:
        key = await create_key(connection, tenant_id, "test")
    async with app_in_this_process(database_url, tmp_path / "objects", key=key) as client:
        client.timeout = httpx.Timeout(2 * WAIT_S)
        yield client


async def finish(world: World, objects: Objects, job: ClaimedJob, body: bytes = b'{"a": 1}') -> None:
    report = Finished(job.lease, job.tenant_id, "succeeded", 200, None, body, Usage(7, 2, 5, 1), 1, 2)
    await reports.finish(world.database, objects, [report], world.policy)


async def ids_of(world: World) -> list[str]:
    return [spell(Prefix.JOB, row.id) for row in await world.live()]


async def test_a_wait_ends_with_the_job_and_shows_its_answer(
    world: World, objects: Objects, tenant_id: UUID, http: httpx.AsyncClient
) -> None:
    batch_id = await world.batch(tenant_id, 1, custom_id="first")
    [job_id] = await ids_of(world)
    queued = (await http.get(f"/v1/jobs/{job_id}")).json()
    assert queued["batch_id"] == spell(Prefix.BATCH, batch_id)
    shown = {
        name: queued[name] for name in ("id", "object", "lane", "state", "custom_id", "model", "endpoint")
    }
    assert shown == {
        "id": job_id, "object": "job", "lane": "p2", "state": "queued", "custom_id": "first", "model": "toy",
        "endpoint": "/v1/chat/completions",
    }  # fmt: skip
    assert queued["deadline"] == queued["created_at"] + 3600
    assert [queued[name] for name in ("claimed_at", "finished_at", "usage", "response", "error")] == [
        None
    ] * 5

    waiting = asyncio.create_task(http.get(f"/v1/jobs/{job_id}?wait={WAIT_S}"))
    [job] = await world.claim(await world.worker(), 1)
    await finish(world, objects, job)
    ended = (await waiting).json()
    assert (ended["state"], ended["error"]) == ("succeeded", None)
    assert ended["response"] == {"status_code": 200, "body": {"a": 1}}
    assert (ended["usage"]["input_tokens"], ended["usage"]["total_tokens"]) == (7, 12)
    assert ended["finished_at"] >= ended["claimed_at"] >= ended["created_at"]


async def test_a_wait_that_is_over_shows_the_job_as_it_is(
    world: World, tenant_id: UUID, http: httpx.AsyncClient
) -> None:
    await world.batch(tenant_id, 1)
    [job_id] = await ids_of(world)
    assert (await http.get(f"/v1/jobs/{job_id}?wait=0.01")).json()["state"] == "queued"
    await world.claim(await world.worker(), 1)
    assert (await http.get(f"/v1/jobs/{job_id}?wait=0.01")).json()["state"] == "running"


async def test_a_large_answer_is_read_from_its_segment(
    world: World, objects: Objects, tenant_id: UUID, http: httpx.AsyncClient
) -> None:
    await world.batch(tenant_id, 2)
    ids = await ids_of(world)
    claimed = await world.claim(await world.worker(), 2)
    large = {spell(Prefix.JOB, job.lease.job_id): str(n) * (1 << 20) for n, job in enumerate(claimed)}
    report = [
        Finished(
            job.lease, tenant_id, "succeeded", 200, None,
            json.dumps(large[spell(Prefix.JOB, job.lease.job_id)]).encode(), Usage(), 1, 2,
        )
        for job in claimed
    ]  # fmt: skip
    await reports.finish(world.database, objects, report, world.policy)
    assert await world.rows("SELECT FROM outcomes WHERE segment_id IS NOT NULL")
    for job_id in ids:
        assert (await http.get(f"/v1/jobs/{job_id}")).json()["response"]["body"] == large[job_id]


async def test_a_job_that_no_engine_answered_says_why(
    world: World, tenant_id: UUID, http: httpx.AsyncClient
) -> None:
    await world.batch(tenant_id, 1)
    [job_id] = await ids_of(world)
    await world.execute("UPDATE batches SET status = 'cancelling'")
    async with world.database.begin() as connection:
        assert await sweeps.cancel_queued(connection, world.policy) == 1
    job = (await http.get(f"/v1/jobs/{job_id}")).json()
    assert (job["state"], job["response"], job["error"]["code"]) == ("cancelled", None, "batch_cancelled")


async def test_events_tell_each_state_and_end_with_the_last(
    world: World, objects: Objects, tenant_id: UUID, http: httpx.AsyncClient
) -> None:
    await world.batch(tenant_id, 1)
    [job_id] = await ids_of(world)
    [job] = await world.claim(await world.worker(), 1)
    following = asyncio.create_task(http.get(f"/v1/jobs/{job_id}/events"))
    await asyncio.sleep(0)
    shown = (await http.get(f"/v1/jobs/{job_id}?wait=0.01")).json()
    assert shown["state"] == "running"
    await finish(world, objects, job)
    answer = await following
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    told = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert [event["id"] for event in told] == [job_id] * len(told)
    assert told[-1]["state"] == "succeeded"
    again = await http.get(f"/v1/jobs/{job_id}/events")
    assert again.text == f"event: state\ndata: {json.dumps(told[-1])}\n\n"


async def test_lists_go_from_page_to_page_over_live_and_ended_jobs(
    world: World, objects: Objects, tenant_id: UUID, http: httpx.AsyncClient
) -> None:
    first = await world.batch(tenant_id, 3, custom_id="odd")
    second = await world.batch(tenant_id, 2)
    ids = sorted(await ids_of(world), reverse=True)
    [job] = await world.claim(await world.worker(), 1)
    await finish(world, objects, job)
    ended = spell(Prefix.JOB, job.lease.job_id)

    async def listed(**asked: Any) -> list[str]:
        answer = await http.get("/v1/jobs", params=asked)
        assert answer.status_code == 200, answer.text
        return [one["id"] for one in answer.json()["data"]]

    assert await listed() == ids
    seen: list[str] = []
    while (page := (await http.get("/v1/jobs", params=after(seen) | {"limit": 2})).json())["has_more"]:
        seen += [one["id"] for one in page["data"]]
    assert seen + [one["id"] for one in page["data"]] == ids
    assert await listed(state="succeeded") == [ended]
    assert await listed(state="queued") == [one for one in ids if one != ended]
    assert await listed(lane="p1") == []
    assert await listed(lane="p2", custom_id="odd", batch=spell(Prefix.BATCH, first)) == ids[2:]
    assert await listed(batch=spell(Prefix.BATCH, second)) == ids[:2]
    assert await listed(created_before=1) == await listed(created_after=4_000_000_000) == []
    assert await listed(created_after=1, created_before=4_000_000_000) == ids


def after(seen: list[str]) -> dict[str, str | int]:
    return {"after": seen[-1]} if seen else {}


async def test_jobs_of_others_look_like_what_is_missing(world: World, http: httpx.AsyncClient) -> None:
    await world.batch(await world.tenant("other"), 1)
    [foreign] = await ids_of(world)
    for path in ("/v1/jobs/{}", "/v1/jobs/{}?wait=60", "/v1/jobs/{}/events"):
        answers = []
        for job_id in (foreign, spell(Prefix.JOB, uuid4()), "job_x"):
            answer = await http.get(path.format(job_id))
            assert error_of(answer)["code"] == "not_found"
            answers.append((answer.status_code, answer.text.replace(job_id, "ID")))
        assert set(answers) == {answers[0]}
        assert answers[0][0] == 404
    assert (await http.get("/v1/jobs")).json()["data"] == []
    assert (await http.get("/v1/jobs", params={"after": foreign})).json()["data"] == []


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("/job_x?wait=61", 400),
        ("?lane=p9", 400),
        ("?state=x", 400),
        ("?after=x", 404),
    ],
)
async def test_what_cannot_be_asked(http: httpx.AsyncClient, query: str, status: int) -> None:
    answer = await http.get(f"/v1/jobs{query}")
    error_of(answer)
    assert answer.status_code == status
