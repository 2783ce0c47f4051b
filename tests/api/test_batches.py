"""/v1/batches up to validation: nothing works on them here, so they stay as the API makes them."""

from __future__ import annotations

import json
from typing import Any, cast
from uuid import UUID

import pytest
import redis
from openai import BadRequestError

from db.redis.broker import MAINTENANCE_QUEUE
from tests.api.conftest import Running, Tenant, error_of
from tests.eventually import eventually

UNSET = (
    "in_progress_at", "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at",
    "cancelled_at", "output_file_id", "error_file_id", "errors", "model", "errors_file_id",
)  # fmt: skip


def wanted(tenant: Tenant, **changes: object) -> dict[str, object]:
    plain = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
    return plain | ({} if "input_file_id" in changes else {"input_file_id": tenant.upload()}) | changes


def uuid_of(batch_id: str) -> UUID:
    return UUID(batch_id.removeprefix("batch_"))


def test_a_new_batch_waits_for_validation(tenant: Tenant) -> None:
    file_id = tenant.upload()
    batch = tenant.client.batches.create(
        input_file_id=file_id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"project": "x"},
        output_expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert (batch.object, batch.status, batch.input_file_id) == ("batch", "validating", file_id)
    assert batch.expires_at == batch.created_at + 24 * 3600
    assert batch.metadata == {"project": "x"}
    assert batch.request_counts is not None
    assert batch.request_counts.model_dump() == {"total": 0, "completed": 0, "failed": 0}
    assert batch.usage is not None
    assert batch.usage.total_tokens == 0
    raw = tenant.http.get(f"/v1/batches/{batch.id}").json()
    assert {key: raw[key] for key in UNSET} == dict.fromkeys(UNSET)
    assert (raw["errors_total"], raw["on_invalid_line"]) == (0, "reject")
    assert tenant.client.batches.retrieve(batch.id) == batch


def test_a_new_batch_rings_the_doorbell(tenant: Tenant, running: Running) -> None:
    with redis.Redis.from_url(running.redis_url) as valkey:
        valkey.delete(MAINTENANCE_QUEUE)
        tenant.batch()
        eventually(lambda: valkey.llen(MAINTENANCE_QUEUE) == 1)
        message = json.loads(valkey.lindex(MAINTENANCE_QUEUE, 0) or b"")
    assert message["headers"]["task"] == "fairlane.ingest"


@pytest.mark.parametrize(("window", "seconds"), [("90s", 90), ("15m", 900), ("24h", 86400), ("7d", 604800)])
def test_any_window_up_to_30_days_is_taken(tenant: Tenant, window: str, seconds: int) -> None:
    """By the official client, whose types know 24h only and whose code takes all."""
    batch = tenant.client.batches.create(**cast("Any", wanted(tenant, completion_window=window)))
    assert batch.completion_window == window
    assert batch.expires_at == batch.created_at + seconds


def test_what_the_workers_need_is_stored(tenant: Tenant, running: Running) -> None:
    body = wanted(
        tenant, on_invalid_line="record", output_expires_after={"anchor": "created_at", "seconds": 7200}
    )
    batch = tenant.http.post("/v1/batches", json=body).json()
    stored = running.sql(
        "SELECT tenant_id, endpoint, on_invalid_line, output_expires_seconds, metadata IS NULL"
        " FROM batches WHERE id = %s",
        uuid_of(batch["id"]),
    )
    assert stored == [(tenant.id, "/v1/chat/completions", "record", 7200, True)]


@pytest.mark.parametrize(
    ("changes", "code", "param"),
    [
        ({"endpoint": "/v1/moderations"}, "invalid_value", "endpoint"),
        ({"completion_window": "31d"}, "invalid_value", "completion_window"),
        ({"completion_window": "soon"}, "invalid_value", "completion_window"),
        ({"completion_window": 24}, "invalid_value", "completion_window"),
        ({"input_file_id": 7}, "invalid_value", "input_file_id"),
        ({"on_invalid_line": "skip"}, "invalid_value", "on_invalid_line"),
        ({"windows": "24h"}, "unknown_parameter", "windows"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "invalid_value", "metadata"),
        ({"metadata": {"k" * 65: "x"}}, "invalid_value", "metadata." + "k" * 65),
        ({"metadata": {"k": "v" * 513}}, "invalid_value", "metadata.k"),
        ({"metadata": {"k": 1}}, "invalid_value", "metadata.k"),
        ({"metadata": {"k": "a\x00b"}}, "invalid_value", "metadata.k"),
        ({"metadata": []}, "invalid_value", "metadata"),
        (
            {"output_expires_after": {"anchor": "created_at", "seconds": 1}},
            "invalid_value",
            "output_expires_after.seconds",
        ),
        (
            {"output_expires_after": {"seconds": 3600}},
            "missing_required_parameter",
            "output_expires_after.anchor",
        ),
    ],
)
def test_bad_fields_are_named(tenant: Tenant, changes: dict[str, Any], code: str, param: str) -> None:
    answer = tenant.http.post("/v1/batches", json=wanted(tenant, **changes))
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["param"]) == (400, code, param)


@pytest.mark.parametrize("name", ["input_file_id", "endpoint", "completion_window"])
def test_missing_fields_are_named(tenant: Tenant, name: str) -> None:
    body = wanted(tenant)
    del body[name]
    answer = tenant.http.post("/v1/batches", json=body)
    error = error_of(answer)
    assert (answer.status_code, error["param"]) == (400, name)
    assert error["message"].startswith(f"Missing required parameter: '{name}'.")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"7", b"\xff", b'"x"', b"[" * 100_000, b'{"metadata": {"k": "\\ud800"}}', b"9" * 5000],
)
def test_bodies_that_are_no_object_are_bad_requests(tenant: Tenant, body: bytes) -> None:
    answer = tenant.http.post("/v1/batches", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    error_of(answer)


def test_a_result_is_no_input(tenant: Tenant, running: Running) -> None:
    result = tenant.upload()
    running.sql("UPDATE files SET purpose = 'batch_output' WHERE id = %s", result.removeprefix("file-"))
    answer = tenant.http.post("/v1/batches", json=wanted(tenant, input_file_id=result))
    assert (answer.status_code, error_of(answer)["param"]) == (400, "input_file_id")


def test_a_list_is_read_page_by_page(tenant: Tenant) -> None:
    file_id = tenant.upload()
    ids = [tenant.batch(file_id) for _ in range(5)]
    first = tenant.client.batches.list(limit=2)
    assert ([batch.id for batch in first.data], first.has_more) == ([ids[4], ids[3]], True)
    assert [batch.id for batch in tenant.client.batches.list(limit=2)] == ids[::-1]
    assert tenant.http.get("/v1/batches?limit=101").status_code == 400


def test_counts_are_what_is_folded_and_what_is_not(tenant: Tenant, running: Running) -> None:
    batch_id = tenant.batch()
    uuid = uuid_of(batch_id)
    running.sql(
        "UPDATE batches SET status = 'in_progress', total = 10, succeeded = 3, unsuccessful = 1,"
        " input_tokens = 100, output_tokens = 50, model = 'm' WHERE id = %s",
        uuid,
    )
    for _ in range(2):
        running.sql(
            "INSERT INTO batch_progress (tenant_id, batch_id, succeeded, unsuccessful, input_tokens,"
            " cached_tokens, output_tokens, reasoning_tokens) VALUES (%s, %s, 1, 1, 10, 4, 5, 2)",
            tenant.id,
            uuid,
        )
    for batch in (tenant.client.batches.retrieve(batch_id), tenant.client.batches.list().data[0]):
        assert batch.request_counts is not None
        assert batch.request_counts.model_dump() == {"total": 10, "completed": 5, "failed": 3}
        assert batch.usage is not None
        assert batch.usage.model_dump() == {
            "input_tokens": 120, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 60,
            "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 180,
        }  # fmt: skip
        assert batch.model == "m"
    # An ended batch has its exact counts; a progress row that is left must not count twice.
    running.sql("UPDATE batches SET status = 'completed', completed_at = now() WHERE id = %s", uuid)
    ended = tenant.client.batches.retrieve(batch_id)
    assert ended.request_counts is not None
    assert ended.request_counts.completed == 3
    assert ended.completed_at is not None


def test_validation_errors_are_shown(tenant: Tenant, running: Running) -> None:
    batch_id, full = tenant.batch(), tenant.upload()
    errors = [{"code": "invalid_json_line", "message": "No JSON.", "param": None, "line": 3}]
    running.sql(
        "UPDATE batches SET status = 'failed', failed_at = now(), errors = %s, errors_total = 2000,"
        " errors_file_id = %s WHERE id = %s",
        json.dumps(errors),
        full.removeprefix("file-"),
        uuid_of(batch_id),
    )
    raw = tenant.http.get(f"/v1/batches/{batch_id}").json()
    assert raw["errors"] == {"object": "list", "data": errors}
    assert (raw["errors_total"], raw["errors_file_id"]) == (2000, full)
    batch = tenant.client.batches.retrieve(batch_id)
    assert batch.errors is not None
    assert batch.errors.data is not None
    assert batch.errors.data[0].line == 3


def test_cancelling_twice_is_harmless(tenant: Tenant) -> None:
    batch_id = tenant.batch()
    first = tenant.client.batches.cancel(batch_id)
    assert first.status == "cancelling"
    assert first.cancelling_at is not None
    assert tenant.client.batches.cancel(batch_id) == first


@pytest.mark.parametrize("status", ["completed", "failed", "expired", "cancelled", "finalizing"])
def test_what_has_ended_cannot_be_cancelled(tenant: Tenant, running: Running, status: str) -> None:
    batch_id = tenant.batch()
    running.sql(
        f"UPDATE batches SET status = '{status}', {status}_at = now(), total = 1 WHERE id = %s",
        uuid_of(batch_id),
    )
    with pytest.raises(BadRequestError) as refused:
        tenant.client.batches.cancel(batch_id)
    assert refused.value.code == "batch_not_cancellable"
    assert status in refused.value.message
    assert tenant.client.batches.retrieve(batch_id).status == status
