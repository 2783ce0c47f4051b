"""Health, readiness, metrics and the log."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from db.schema import REVISION
from migrations.run import downgrade, head
from tests.api.conftest import Running, Tenant, app_in_this_process, error_of
from tests.eventually import eventually


def test_the_code_and_the_migrations_mean_one_schema() -> None:
    assert head() == REVISION


async def test_ready_needs_the_schema(tmp_path: Path, database: AsyncEngine, database_url: str) -> None:
    async with app_in_this_process(database_url, tmp_path) as client:
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        async with database.begin() as connection:
            await connection.execute(text("UPDATE alembic_version SET version_num = 'older'"))
        older = await client.get("/readyz")
        async with database.begin() as connection:
            await connection.execute(text("UPDATE alembic_version SET version_num = :head"), {"head": head()})
        downgrade(database_url)
        empty = await client.get("/readyz")
    for answer in (older, empty):
        assert (answer.status_code, error_of(answer)["code"]) == (503, "service_unavailable")


def test_metrics_have_bounded_labels(tenant: Tenant, running: Running) -> None:
    file_id = tenant.upload()
    tenant.http.get(f"/v1/files/{file_id}")
    tenant.http.get("/v1/no/such/url")
    tenant.http.request("PROPFIND", "/v1/models")
    shown = httpx.get(f"{running.url}/metrics").text
    assert 'fairlane_http_requests_total{method="GET",route="/v1/files/{file_id}",status="2xx"}' in shown
    assert 'route="unmatched"' in shown
    assert 'method="OTHER"' in shown
    assert "fairlane_http_request_seconds_bucket" in shown
    for secret in (file_id, tenant.key, str(tenant.id), "PROPFIND", "no/such"):
        assert secret not in shown


async def test_metrics_are_for_this_machine_only(tmp_path: Path, database_url: str) -> None:
    async with app_in_this_process(database_url, tmp_path, peer="192.0.2.7") as client:
        answer = await client.get("/metrics")
        assert (answer.status_code, error_of(answer)["code"]) == (404, "unknown_url")
        assert (await client.get("/healthz")).status_code == 200
    async with app_in_this_process(database_url, tmp_path, peer="::1") as client:
        assert (await client.get("/metrics")).status_code == 200


def test_the_log_has_ids_and_no_content(tenant: Tenant, running: Running) -> None:
    secret = b'{"prompt": "a-very-secret-prompt"}\n'
    answer = tenant.http.get(f"/v1/files/{tenant.upload(secret, 'secret-name.jsonl')}/content")
    request_id = answer.headers["x-request-id"]
    eventually(lambda: request_id in running.log.read_text())
    lines = running.log.read_text().splitlines()
    line = next(json.loads(line) for line in lines if request_id in line)
    assert line["event"] == "request"
    assert line["tenant_id"] == str(tenant.id)
    assert (line["method"], line["route"]) == ("GET", "/v1/files/{file_id}/content")
    assert line["status"] == 200
    assert line["ms"] >= 0
    assert all(json.loads(line) for line in lines)
    for words in ("a-very-secret-prompt", "secret-name", tenant.key):
        assert words not in running.log.read_text()
