"""A tenant can neither see nor touch another's things, in the API and again in the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine

from db.connect import Role, connect, tenant_transaction
from db.tables import metadata
from tests.api.conftest import Running, Tenant, error_of, with_psycopg

MISSING_FILE, MISSING_BATCH = f"file-{'0' * 32}", f"batch_{'0' * 32}"

ROUTES = [
    ("GET", "/v1/files/{file}", None),
    ("GET", "/v1/files/{file}/content", None),
    ("GET", "/v1/files?after={file}", None),
    ("DELETE", "/v1/files/{file}", None),
    ("GET", "/v1/batches/{batch}", None),
    ("GET", "/v1/batches?after={batch}", None),
    ("POST", "/v1/batches/{batch}/cancel", None),
    (
        "POST",
        "/v1/batches",
        {"input_file_id": "{file}", "endpoint": "/v1/completions", "completion_window": "1h"},
    ),
]

# One row a table, of the tenant and batch given.
FILLED = """
INSERT INTO batch_progress (
    tenant_id, batch_id, succeeded, unsuccessful, input_tokens, cached_tokens, output_tokens, reasoning_tokens
) VALUES (%(tenant)s, %(batch)s, 0, 0, 0, 0, 0, 0);
INSERT INTO segments (tenant_id, kind, object_key, bytes) VALUES (%(tenant)s, 'input', %(name)s, 1);
INSERT INTO jobs (
    tenant_id, flow_id, ord, deadline, bucket, input_tokens, output_tokens, lane, model, endpoint
) VALUES (%(tenant)s, %(batch)s, 1, now() + interval '1 day', 1, 1, 1, 1, %(name)s, '/v1/x');
INSERT INTO jobs_done (
    id, finished_on, tenant_id, flow_id, model, endpoint, lane, state, fence, attempts, error_code,
    created_at, finished_at
) VALUES (
    uuidv7(), '2000-01-01', %(tenant)s, %(batch)s, 'm', '/v1/x', 1, 'failed', 1, 1, 'engine_error',
    now(), now()
);
INSERT INTO outcomes (job_id, finished_on, tenant_id, body) VALUES (uuidv7(), '2000-01-01', %(tenant)s, '');
INSERT INTO lane_accounts (model, lane, tenant_id, flow_id) VALUES (%(name)s, 1, %(tenant)s, %(batch)s);
INSERT INTO job_requests (job_id, tenant_id, key_id, kind, deadline, decision)
    VALUES (uuidv7(), %(tenant)s, %(batch)s, 'job', now(), '{}');
INSERT INTO job_attempts (job_id, fence, tenant_id, boot_id, claimed_at, reason)
    VALUES (uuidv7(), 1, %(tenant)s, %(batch)s, now(), 'drained');
INSERT INTO idempotency_keys (tenant_id, endpoint, key_hash, request_digest, object_id, expires_at)
    VALUES (%(tenant)s, '/v1/x', sha256(''), sha256(''), %(batch)s, now())
"""


@pytest.mark.parametrize(("method", "path", "body"), ROUTES, ids=lambda value: str(value)[:40])
def test_what_is_anothers_looks_like_what_is_missing(
    new_tenant: Callable[[], Tenant], method: str, path: str, body: dict[str, str] | None
) -> None:
    own, other = new_tenant(), new_tenant()

    def ask(file: str, batch: str) -> tuple[int, str]:
        sent = None if body is None else {k: v.replace("{file}", file) for k, v in body.items()}
        answer = own.http.request(method, path.format(file=file, batch=batch), json=sent)
        if answer.status_code >= 400:
            error_of(answer)
        return answer.status_code, answer.text.replace(file, "ID").replace(batch, "ID")

    foreign_file = other.upload()
    foreign_batch = other.batch(foreign_file)
    foreign, missing = ask(foreign_file, foreign_batch), ask(MISSING_FILE, MISSING_BATCH)
    assert foreign == missing
    assert foreign[0] == 404
    # nothing happened to it, and what is one's own answers
    assert other.client.batches.retrieve(foreign_batch).status == "validating"
    assert other.client.files.retrieve(foreign_file).id == foreign_file
    own_file = own.upload()
    assert ask(own_file, own.batch(own_file))[0] == 200


def test_lists_hold_only_what_is_ones_own(new_tenant: Callable[[], Tenant]) -> None:
    own, other = new_tenant(), new_tenant()
    other.batch()
    assert own.client.files.list().data == []
    assert own.client.batches.list().data == []


def test_an_id_of_another_kind_is_not_found(tenant: Tenant) -> None:
    file_id = tenant.upload()
    batch_id = tenant.batch(file_id)
    assert tenant.http.get(f"/v1/files/{batch_id}").status_code == 404
    assert tenant.http.get(f"/v1/batches/{file_id}").status_code == 404
    assert tenant.http.get(f"/v1/files/{file_id.upper()}").status_code == 404


async def test_every_tenant_table_is_bound_also_for_its_owner(database: AsyncEngine) -> None:
    ours = {table.name for table in metadata.sorted_tables if "tenant_id" in table.c} | {"tenants"}
    async with database.connect() as connection:
        rows = await connection.execute(
            text(
                "SELECT c.relname FROM pg_class c WHERE c.relrowsecurity AND c.relforcerowsecurity AND EXISTS"
                " (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'own_tenant')"
            )
        )
        bound = set(rows.scalars())
        flags = await connection.execute(
            text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = 'fairlane_api'")
        )
        assert flags.scalar_one() is False
    assert {"files", "batches", "batch_progress", "api_keys"} < ours
    assert ours - bound == set()


def test_without_a_tenant_the_api_role_sees_nothing(
    running: Running, new_tenant: Callable[[], Tenant]
) -> None:
    own, other = new_tenant(), new_tenant()
    for tenant in (own, other):
        batch_id = tenant.batch().removeprefix("batch_")
        for filled in FILLED.split(";"):
            running.sql(filled, tenant=tenant.id, batch=batch_id, name=uuid4().hex)
    asyncio.run(sees_its_own(running.database_url, own.id))


async def sees_its_own(database_url: str, own: UUID) -> None:
    engine = connect(with_psycopg(database_url), Role.API, connections=1, name="test")
    for table in (
        "tenants", "api_keys", "files", "batches", "batch_progress", "segments", "jobs", "jobs_done",
        "outcomes", "lane_accounts", "job_requests", "job_attempts", "idempotency_keys",
    ):  # fmt: skip
        column = "id" if table == "tenants" else "tenant_id"
        query = text(f"SELECT DISTINCT {column} FROM {table}")
        async with engine.begin() as connection:
            assert (await connection.execute(query)).all() == [], table
        async with tenant_transaction(engine, own) as connection:
            assert (await connection.execute(query)).scalars().all() == [own], table
        # the setting ends with its transaction, although the connection is the same
        async with engine.begin() as connection:
            assert (await connection.execute(query)).all() == [], table
    await engine.dispose()


def test_the_api_role_cannot_write_for_another_tenant(
    running: Running, new_tenant: Callable[[], Tenant]
) -> None:
    own, other = new_tenant(), new_tenant()
    asyncio.run(writes_only_its_own(running.database_url, own.id, other.id))


async def writes_only_its_own(database_url: str, own: UUID, other: UUID) -> None:
    engine = connect(with_psycopg(database_url), Role.API, connections=1, name="test")
    insert = text(
        "INSERT INTO files (tenant_id, purpose, filename, bytes, object_key)"
        " VALUES (:tenant, 'batch', 'a', 1, :key)"
    )
    with pytest.raises(ProgrammingError, match="row-level security"):
        async with tenant_transaction(engine, own) as connection:
            await connection.execute(insert, {"tenant": other, "key": "x"})
    for table in ("jobs", "jobs_done", "outcomes", "segments", "lane_accounts", "job_attempts"):
        for write in (f"DELETE FROM {table}", f"UPDATE {table} SET tenant_id = tenant_id"):
            with pytest.raises(ProgrammingError, match="permission denied"):
                async with tenant_transaction(engine, own) as connection:
                    await connection.execute(text(write))
    await engine.dispose()
