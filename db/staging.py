"""Where the lines of one input file wait, in temporary tables, until all of them are known.

The tables live in one held session, are not logged, and vanish with it. Every call is a short
transaction of its own, so that nothing stays open while the file is read.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from psycopg import AsyncConnection as DriverConnection
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db.sql import statement
from lanes.line import LineError
from lanes.pieces import WHOLE_FILE, PlacedLine

_TABLES = (
    """
    CREATE TEMPORARY TABLE staged_lines (
        line integer NOT NULL,
        custom_id text COLLATE "C" NOT NULL,
        model text COLLATE "C" NOT NULL,
        segment_id bigint,  -- none once the batch is bound to be refused
        byte_offset integer NOT NULL,
        byte_length integer NOT NULL,
        input_tokens integer NOT NULL,
        output_tokens integer NOT NULL,
        prefix bigint NOT NULL,
        deadline_seconds integer,  -- none: the end of the batch's window
        rank smallint NOT NULL
    )
    """,
    """
    CREATE TEMPORARY TABLE staged_errors (
        line integer PRIMARY KEY,  -- 0: the file as a whole
        custom_id text,
        code text NOT NULL,
        error text NOT NULL  -- the JSON object that the client gets
    )
    """,
)
_DROP = "DROP TABLE IF EXISTS pg_temp.staged_lines, pg_temp.staged_errors"
_COPY_LINES = "COPY pg_temp.staged_lines FROM STDIN"
_COPY_ERRORS = "COPY pg_temp.staged_errors FROM STDIN"
_PAGE = text("SELECT line, error FROM staged_errors WHERE line > :after ORDER BY line LIMIT :rows")
_PAGE_ROWS = 2_000
# What COPY's text format must not meet bare; the same four in a custom_id and in a JSON text.
_NULL = "\\N"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Staging:
    """The two tables, on the connection that holds them."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection

    async def add(
        self, lines: Sequence[PlacedLine], errors: Sequence[LineError], segment_id: int | None
    ) -> None:
        """Stage the lines of one piece, which lie in that segment, and its errors."""
        async with self.connection.begin():
            if lines:
                await self._copy(_COPY_LINES, _line_rows(lines, segment_id))
            if errors:
                await self._copy(_COPY_ERRORS, _error_rows(errors))

    async def refuse_duplicates(self) -> int:
        """Make an error of every line whose custom_id an earlier valid line has; how many."""
        async with self.connection.begin():
            await self.connection.execute(text("ANALYZE staged_lines"))
            return (await self.connection.execute(statement("ingest_duplicates"))).rowcount

    async def errors(self) -> AsyncIterator[list[str]]:
        """All errors as JSON texts in the order of their lines, some at a time."""
        after = WHOLE_FILE - 1
        while True:
            async with self.connection.begin():
                page = (await self.connection.execute(_PAGE, {"after": after, "rows": _PAGE_ROWS})).all()
            if not page:
                return
            yield [row.error for row in page]
            after = page[-1].line

    async def _copy(self, command: str, rows: Iterable[str]) -> None:
        raw = (await self.connection.get_raw_connection()).driver_connection
        if not isinstance(raw, DriverConnection):
            raise TypeError("the staging tables are filled by psycopg's COPY")
        async with raw.cursor() as cursor, cursor.copy(command) as copy:
            await copy.write("".join(rows))


@asynccontextmanager
async def staging(database: AsyncEngine) -> AsyncIterator[Staging]:
    """A session with empty staging tables; whatever happens, they are gone afterwards."""
    async with database.connect() as connection:
        try:
            async with connection.begin():
                for table in _TABLES:
                    await connection.execute(text(table))
            yield Staging(connection)
            async with connection.begin():
                await connection.execute(text(_DROP))
        except BaseException:
            await connection.invalidate()  # its session ends, and the tables with it
            raise


def _line_rows(lines: Iterable[PlacedLine], segment_id: int | None) -> list[str]:
    segment = _NULL if segment_id is None else str(segment_id)
    return [
        f"{line.line}\t{line.custom_id.translate(_ESCAPES)}\t{line.model.translate(_ESCAPES)}\t{segment}"
        f"\t{line.byte_offset}\t{line.byte_length}\t{line.input_tokens}\t{line.output_tokens}"
        f"\t{line.prefix}\t{_NULL if line.deadline_seconds is None else line.deadline_seconds}\t{line.rank}\n"
        for line in lines
    ]


def _error_rows(errors: Iterable[LineError]) -> list[str]:
    return [
        f"{error.line}\t{_NULL if error.custom_id is None else error.custom_id.translate(_ESCAPES)}"
        f"\t{error.code}\t{_error_json(error).translate(_ESCAPES)}\n"
        for error in errors
    ]


def _error_json(error: LineError) -> str:
    return json.dumps(
        {
            "code": error.code,
            "message": error.message,
            "param": error.param,
            "line": None if error.line == WHOLE_FILE else error.line,
        }
    )
