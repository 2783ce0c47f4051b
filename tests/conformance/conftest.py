"""Both sides of the port, for examples that must hold on each of them."""

from __future__ import annotations

import pytest

from tests.conformance.oracle import Oracle
from tests.conformance.port import Queue
from tests.conformance.postgres import PostgresQueue


@pytest.fixture(params=["oracle", "postgres"])
def queue(request: pytest.FixtureRequest) -> Queue:
    if request.param == "oracle":
        return Oracle()
    return PostgresQueue(request.getfixturevalue("world").database, request.getfixturevalue("objects"))
