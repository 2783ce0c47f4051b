"""API keys: their form, who they are, and when they stop working."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest
from openai import AuthenticationError
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.auth import REMEMBERED_SECONDS
from db.connect import Role, connect
from db.key_format import make_key, parse_key
from db.keys import Principal, authenticate, create_key, create_tenant, ensure_default_key
from tests.api.conftest import Running, Tenant, error_of, new_key
from tests.eventually import eventually


def test_a_key_is_read_as_it_was_made() -> None:
    key, parts = make_key()
    assert parse_key(key) == parts
    assert make_key()[0] != key


def test_junk_is_told_by_its_checksum() -> None:
    key, _ = make_key()
    assert parse_key("") is None
    assert parse_key(key + "0") is None
    assert parse_key(key.replace("fl_", "sk_")) is None
    for at in range(len("fl_"), len(key)):
        other = "a" if key[at] != "a" else "b"
        assert parse_key(key[:at] + other + key[at + 1 :]) is None


async def test_junk_does_not_reach_the_database() -> None:
    nowhere = connect("postgresql+psycopg://127.0.0.1:1/none", Role.API, connections=1, name="test")
    assert await authenticate(nowhere, make_key()[0][:-1] + "x") is None
    await nowhere.dispose()


async def test_a_key_names_its_tenant(database: AsyncEngine, database_url: str) -> None:
    async with database.begin() as connection:
        tenant_id = await create_tenant(connection, "acme")
        key = await create_key(connection, tenant_id, "one")
        other = await create_key(connection, tenant_id, "two")
    as_api = connect(database_url, Role.API, connections=1, name="test")
    first, second = await authenticate(as_api, key), await authenticate(as_api, other)
    assert isinstance(first, Principal)
    assert isinstance(second, Principal)
    assert first.tenant_id == second.tenant_id == tenant_id
    assert first.key_id != second.key_id
    # the secret of one key does not open another, however well it is spelled
    mixed = f"{key.split('_')[1]}_{other.split('_')[2][:43]}"
    spelled = f"fl_{mixed}{zlib.crc32(mixed.encode()):08x}"
    assert parse_key(spelled) is not None
    assert await authenticate(as_api, spelled) is None
    await as_api.dispose()


async def test_the_secret_is_not_stored(database: AsyncEngine) -> None:
    key = await ensure_default_key(database)
    async with database.connect() as connection:
        row = (await connection.execute(text("SELECT api_keys::text FROM api_keys"))).scalar_one()
    secret = key.rpartition("_")[2]
    assert secret[:43] not in row
    assert parse_key(key).secret_hash.hex() in row  # type: ignore[union-attr]  # our own key parses


async def test_each_call_makes_a_key_of_the_one_default_tenant(database: AsyncEngine) -> None:
    first, second = await ensure_default_key(database), await ensure_default_key(database)
    found = [await authenticate(database, key) for key in (first, second)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].tenant_id == found[1].tenant_id
    assert first != second


async def test_use_is_written_at_most_once_a_minute(database: AsyncEngine, database_url: str) -> None:
    key = await ensure_default_key(database)
    as_api = connect(database_url, Role.API, connections=1, name="test")

    async def used() -> object:
        async with database.connect() as connection:
            return (await connection.execute(text("SELECT last_used_at FROM api_keys"))).scalar_one()

    assert await used() is None
    await authenticate(as_api, key)
    first = await used()
    assert first is not None
    await authenticate(as_api, key)
    assert await used() == first
    async with database.begin() as connection:
        await connection.execute(text("UPDATE api_keys SET last_used_at = last_used_at - interval '61 s'"))
    await authenticate(as_api, key)
    later = await used()
    assert later is not None
    assert later >= first  # type: ignore[operator]  # both are times
    await as_api.dispose()


def test_keys_that_are_nobodys_get_one_answer(new_tenant: Callable[[], Tenant], running: Running) -> None:
    revoked = new_tenant()
    running.sql("UPDATE api_keys SET revoked_at = now() WHERE tenant_id = %s", revoked.id)
    expired = asyncio.run(new_key(running.database_url, timedelta(seconds=0)))[1]
    unknown, junk = make_key()[0], "sk-something"
    bodies = set()
    for key in (revoked.key, expired, unknown, junk):
        answer = httpx.get(f"{running.url}/v1/files", headers={"Authorization": f"Bearer {key}"})
        assert (answer.status_code, error_of(answer)["code"]) == (401, "invalid_api_key")
        assert answer.headers["www-authenticate"] == "Bearer"
        bodies.add(answer.text)
    assert len(bodies) == 1
    with pytest.raises(AuthenticationError):
        revoked.client.models.list()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/files"), ("GET", "/v1/files"), ("GET", "/v1/files/x"), ("GET", "/v1/files/x/content"),
        ("DELETE", "/v1/files/x"), ("POST", "/v1/batches"), ("GET", "/v1/batches"), ("GET", "/v1/batches/x"),
        ("POST", "/v1/batches/x/cancel"), ("GET", "/v1/models"), ("GET", "/v1/models/x"), ("GET", "/v1/none"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sent", [None, "Bearer", "Basic abc", "fl_x"])
def test_nothing_is_reached_without_a_key(running: Running, method: str, path: str, sent: str | None) -> None:
    headers = {} if sent is None else {"Authorization": sent}
    answer = httpx.request(method, running.url + path, headers=headers)
    assert (answer.status_code, error_of(answer)["code"]) == (401, "missing_api_key")


def test_a_revoked_key_stops_within_seconds(tenant: Tenant, running: Running) -> None:
    assert tenant.http.get("/v1/files").status_code == 200
    running.sql("UPDATE api_keys SET revoked_at = now() WHERE tenant_id = %s", tenant.id)
    eventually(lambda: tenant.http.get("/v1/files").status_code == 401, within_s=REMEMBERED_SECONDS + 2)
