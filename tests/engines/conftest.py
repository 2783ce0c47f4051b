"""Each engine once for the whole run: loading vLLM takes half a minute."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.engines.subjects import simulated, vllm
from workers.engines.port import Engine


@pytest_asyncio.fixture(
    scope="session",
    loop_scope="session",
    params=[simulated, pytest.param(vllm, marks=pytest.mark.vllm)],
    ids=lambda make: make.__name__,
)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    made: Engine = request.param()
    await made.start()
    yield made
    await made.close()
