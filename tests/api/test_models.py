"""/v1/models"""

from __future__ import annotations

import asyncio

import pytest
from openai import NotFoundError

from db.connect import Role, connect
from db.deployments import register_deployment
from tests.api.conftest import Running, Tenant, with_psycopg


async def register(database_url: str, name: str, engine: str, context_tokens: int) -> None:
    database = connect(with_psycopg(database_url), Role.ENGINE, connections=1, name="test")
    async with database.begin() as connection:
        await register_deployment(connection, name, engine, context_tokens)
    await database.dispose()


def test_models_are_the_deployments(tenant: Tenant, running: Running) -> None:
    asyncio.run(register(running.database_url, "org/big-model", "vllm", 4096))
    asyncio.run(register(running.database_url, "toy", "simulated", 100))
    asyncio.run(register(running.database_url, "toy", "simulated", 200))
    assert [model.id for model in tenant.client.models.list()] == ["org/big-model", "toy"]
    big = tenant.client.models.retrieve("org/big-model")  # sent as org%2Fbig-model
    assert (big.object, big.id, big.owned_by) == ("model", "org/big-model", "fairlane")
    assert tenant.http.get("/v1/models/org/big-model").json()["id"] == big.id
    raw = tenant.http.get("/v1/models/toy").json()
    assert (raw["engine"], raw["max_model_len"]) == ("simulated", 200)


@pytest.mark.parametrize("name", ["none", "org/none", "a\x00b", "é"])
def test_an_unknown_model_is_not_found(tenant: Tenant, name: str) -> None:
    with pytest.raises(NotFoundError) as missing:
        tenant.client.models.retrieve(name)
    assert missing.value.param == "model"
