"""Two sessions beside the world that both of them share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.interleavings.sessions import Session, session


@pytest.fixture
async def first(database_url: str) -> AsyncIterator[Session]:
    async with session(database_url, "first") as opened:
        yield opened


@pytest.fixture
async def second(database_url: str) -> AsyncIterator[Session]:
    async with session(database_url, "second") as opened:
        yield opened
