"""Every error has one shape, a request id, and a status that clients know what to do with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from openai import OpenAI

from tests.api.conftest import Running, Tenant, app_in_this_process, error_of, new_key, running_api
from tests.eventually import eventually


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "unknown_url"),
        ("GET", "/v1/nothing", 404, "unknown_url"),
        ("GET", "/v1/files/", 404, "unknown_url"),
        ("GET", "/docs", 404, "unknown_url"),
        ("GET", "/openapi.json", 404, "unknown_url"),
        ("PUT", "/v1/files", 405, "method_not_allowed"),
        ("DELETE", "/healthz", 405, "method_not_allowed"),
        ("GET", "/v1/files/file-x", 404, "not_found"),
        ("GET", "/v1/batches/batch_x", 404, "not_found"),
        ("GET", "/v1/batches?limit=-1", 400, "invalid_value"),
    ],
)
def test_statuses(tenant: Tenant, method: str, path: str, status: int, code: str) -> None:
    answer = tenant.http.request(method, path)
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["type"]) == (status, code, "invalid_request_error")


def test_all_methods_of_a_url_are_named(tenant: Tenant) -> None:
    assert tenant.http.put("/v1/files").headers["allow"] == "GET, POST"


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
def test_a_large_body_is_refused(tenant: Tenant, *, declared: bool) -> None:
    body = b'{"metadata": {"k": "' + b"x" * (1 << 20) + b'"}}'
    content = body if declared else iter([body])
    answer = tenant.http.post("/v1/batches", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, error_of(answer)["code"]) == (413, "request_too_large")


def test_lost_bytes_are_our_fault_and_say_nothing_of_the_inside(tenant: Tenant, running: Running) -> None:
    file_id = tenant.upload()
    query = "SELECT object_key FROM files WHERE id = %s"
    ((key,),) = running.sql(query, file_id.removeprefix("file-"))
    (running.objects / key).unlink()
    answer = tenant.http.get(f"/v1/files/{file_id}/content")
    error = error_of(answer)
    assert (answer.status_code, error["type"], error["code"]) == (500, "server_error", "internal_error")
    assert key not in answer.text
    assert answer.headers["x-request-id"] in running.log.read_text()


async def test_a_database_that_is_away_is_told_as_come_back(tmp_path: Path, database_url: str) -> None:
    _, key = await new_key(database_url)
    away = "postgresql://127.0.0.1:1/none"
    async with app_in_this_process(away, tmp_path, key=key) as client:
        answer = await client.get("/v1/files")
        ready = await client.get("/readyz")
        alive = await client.get("/healthz")
    for unavailable in (answer, ready):
        assert (unavailable.status_code, error_of(unavailable)["code"]) == (503, "service_unavailable")
        assert int(unavailable.headers["retry-after"]) >= 1
    assert alive.status_code == 200


def test_a_redis_that_is_away_delays_nobody(api_database: str, tmp_path: Path) -> None:
    _, key = asyncio.run(new_key(api_database))
    with running_api(tmp_path, api_database, "redis://127.0.0.1:1/0") as api:
        client = OpenAI(base_url=f"{api.url}/v1", api_key=key, max_retries=0, timeout=3)
        file = client.files.create(file=("in.jsonl", b"{}\n"), purpose="batch")
        batch = client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        assert batch.status == "validating"
        eventually(lambda: "doorbell.lost" in api.log.read_text(), within_s=15)


def test_success_has_a_request_id_too(tenant: Tenant) -> None:
    answers = [
        tenant.http.get(path) for path in ("/healthz", "/readyz", "/v1/models", "/v1/files", "/v1/batches")
    ]
    ids = {answer.headers["x-request-id"] for answer in answers}
    assert [answer.status_code for answer in answers] == [200] * 5
    assert len(ids) == 5
    # never the client's own: two clients could send the same
    chosen = tenant.http.get("/v1/models", headers={"x-request-id": "req_mine"})
    assert chosen.headers["x-request-id"] != "req_mine"
