"""POST /v1/batches and /v1/files by a name: one thing for one name, however often it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.api.conftest import LINE, Running, Tenant, error_of

REPLAYED = "idempotent-replayed"


def wanted(file_id: str, window: str = "24h") -> dict[str, str]:
    return {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": window}


def create(tenant: Tenant, body: dict[str, str], **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return tenant.http.post("/v1/batches", json=body, headers=named, timeout=60)


def batches_of(running: Running, tenant: Tenant) -> int:
    count: int = running.sql("SELECT count(*) FROM batches WHERE tenant_id = %s", tenant.id)[0][0]
    return count


def test_racing_creates_with_one_key_make_one_batch(tenant: Tenant, running: Running) -> None:
    body = wanted(tenant.upload())
    with ThreadPoolExecutor(20) as racers:
        answers = list(racers.map(lambda _: create(tenant, body, idempotency_key="k"), range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sorted(answer.headers.get(REPLAYED, "") for answer in answers) == ["", *["true"] * 19]
    assert batches_of(running, tenant) == 1


def test_a_key_is_of_one_request_and_one_tenant(tenant: Tenant, new_tenant: Callable[[], Tenant]) -> None:
    body = wanted(tenant.upload())
    first = create(tenant, body, idempotency_key='"k 1"')
    again = create(tenant, dict(reversed(body.items())), idempotency_key='"k 1"')
    assert again.json() == first.json()
    reused = create(tenant, body | {"completion_window": "1h"}, idempotency_key='"k 1"')
    assert reused.status_code == 422
    assert error_of(reused)["code"] == "idempotency_key_reused"
    other = new_tenant()
    theirs = create(other, wanted(other.upload()), idempotency_key='"k 1"')
    assert (theirs.status_code, REPLAYED in theirs.headers) == (200, False)


def test_a_refused_request_leaves_its_key_free(tenant: Tenant) -> None:
    missing = create(tenant, wanted(f"file-{'0' * 32}"), idempotency_key="k")
    assert missing.status_code == 404
    made = create(tenant, wanted(tenant.upload()), idempotency_key="k")
    assert (made.status_code, REPLAYED in made.headers) == (200, False)


def test_a_clients_retry_finds_what_its_first_try_made(tenant: Tenant, running: Running) -> None:
    body = wanted(tenant.upload())
    create(tenant, body, x_stainless_retry_count="0")
    second = create(tenant, body, x_stainless_retry_count="0")  # meant: a first try makes anew
    assert batches_of(running, tenant) == 2
    retried = create(tenant, body, x_stainless_retry_count="1")
    assert (retried.json(), retried.headers.get(REPLAYED)) == (second.json(), "true")
    other = create(tenant, body | {"completion_window": "1h"}, x_stainless_retry_count="1")
    assert (other.status_code, REPLAYED in other.headers) == (200, False)
    running.sql("UPDATE idempotency_keys SET expires_at = now() WHERE tenant_id = %s", tenant.id)
    late = create(tenant, body, x_stainless_retry_count="2")
    assert (late.status_code, REPLAYED in late.headers) == (200, False)


def upload(
    tenant: Tenant, content: bytes = LINE, filename: str = "in.jsonl", **headers: str
) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    form, files = {"purpose": "batch"}, {"file": (filename, content)}
    return tenant.http.post("/v1/files", data=form, files=files, headers=named, timeout=60)


def test_one_key_uploads_one_file(tenant: Tenant, running: Running) -> None:
    first = upload(tenant, idempotency_key="k")
    stored = running.stored()
    again = upload(tenant, idempotency_key="k")  # with another boundary: the digest is of the file
    assert (again.json(), again.headers.get(REPLAYED)) == (first.json(), "true")
    assert running.stored() == stored
    for reused in (
        upload(tenant, LINE * 2, idempotency_key="k"),
        upload(tenant, filename="b.jsonl", idempotency_key="k"),
    ):
        assert reused.status_code == 422
        assert error_of(reused)["code"] == "idempotency_key_reused"
    tenant.client.files.delete(first.json()["id"])
    assert upload(tenant, idempotency_key="k").status_code == 404


def test_a_retried_upload_finds_its_file(tenant: Tenant) -> None:
    first, second = (upload(tenant, x_stainless_retry_count="0").json() for _ in range(2))
    assert first["id"] != second["id"]
    retried = upload(tenant, x_stainless_retry_count="1")
    assert (retried.json(), retried.headers.get(REPLAYED)) == (second, "true")
    assert REPLAYED not in upload(tenant, LINE * 2, x_stainless_retry_count="1").headers


def test_an_unreadable_key_leaves_nothing(tenant: Tenant, running: Running) -> None:
    stored = running.stored()
    refused = upload(tenant, idempotency_key='"open')
    assert (refused.status_code, error_of(refused)["param"]) == (400, "Idempotency-Key")
    assert running.stored() == stored
