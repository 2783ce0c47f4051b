"""Sessions of their own with named pause points, to put two transactions in a chosen order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import await_

from db.connect import Role, connect

COMMIT = "COMMIT"


@dataclass(slots=True)
class Pause:
    """A point that a session reaches once and passes when the test lets it."""

    words: str
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    def meets(self, statement: str) -> None:
        """Called by the session before each statement, in the greenlet of its connection."""
        if self.words in statement and not self.reached.is_set():
            self.reached.set()
            await_(self.go_on.wait())


@dataclass(slots=True)
class Session:
    """One connection, and the number of the server's process behind it."""

    engine: AsyncEngine
    pid: int

    def pause_before(self, words: str) -> Pause:
        """Stop before the first statement that has these words; COMMIT stops before the first commit."""
        pause = Pause(words)

        def before(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
            pause.meets(statement)

        event.listen(self.engine.sync_engine, "before_cursor_execute", before)
        event.listen(self.engine.sync_engine, "commit", lambda _: pause.meets(COMMIT))
        return pause

    async def until_blocked(self, watcher: AsyncEngine) -> None:
        """Return once the session waits for a lock of another one."""
        waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = :pid")
        async with asyncio.timeout(15), watcher.connect() as connection:
            while not (await connection.execute(waits, {"pid": self.pid})).scalar_one():
                await connection.rollback()  # each look is a round trip: the loop is not busy here


@asynccontextmanager
async def session(database_url: str, name: str) -> AsyncIterator[Session]:
    engine = connect(database_url, Role.ENGINE, connections=1, name=name)
    try:
        async with engine.connect() as connection:
            pid = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
        yield Session(engine, pid)
    finally:
        await engine.dispose()
