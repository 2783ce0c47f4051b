"""Query plans: what runs every second reads neither the queue nor the accounts from end to end.

Under the plan that is made for the given values and under the one that a prepared statement keeps
for all values; what runs under the turnstile also before there are any statistics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from db.claims import claim
from db.lengths import BUCKET_BOUNDS
from db.sql import statement
from db.tables.accounts import TENANT_LEVEL
from lanes.lane import Lane
from lanes.policy import DEFAULT
from tests.world import MODEL, World

SCOPE = {"model": MODEL, "lane": 2}
PRICES = {"input_cost": 1.0, "output_cost": 2.0}
ACCOUNTS = 128  # four for each of 32 free seats

# A flow for every tenant, and its jobs; one tenant in twenty has five times as many.
FILL = """
INSERT INTO tenants (name) SELECT 'tenant ' || n FROM generate_series(1, %(tenants)s) AS n;
INSERT INTO turnstiles (model, lane) VALUES ('toy', 2);
INSERT INTO segments (tenant_id, kind, object_key, bytes)
    SELECT min(id::text)::uuid, 'input', 'key', 1 FROM tenants;
CREATE TEMPORARY TABLE flows AS
    SELECT id AS tenant_id, gen_random_uuid() AS flow_id, row_number() OVER (ORDER BY id) AS n FROM tenants;
INSERT INTO lane_accounts (model, lane, tenant_id, flow_id, vtime)
    SELECT 'toy', 2, tenant_id, account, n * 10
    FROM flows, LATERAL (VALUES (flow_id), (%(level)s)) AS levels(account);
INSERT INTO files (tenant_id, purpose, filename, bytes, object_key)
    SELECT tenant_id, 'batch', 'a.jsonl', 1, 'file' FROM segments;
INSERT INTO batches (tenant_id, endpoint, input_file_id, completion_window, expires_at, status, total)
    SELECT tenant_id, '/v1/chat/completions', id, '1h', clock_timestamp() + interval '1 h', 'in_progress',
           1000000
    FROM files;
INSERT INTO jobs (tenant_id, flow_id, batch_id, line, segment_id, ord, deadline, bucket, byte_offset,
                  byte_length, input_tokens, output_tokens, lane, model, endpoint)
    SELECT tenant_id, flow_id, (SELECT id FROM batches), row_number() OVER (), (SELECT id FROM segments), ord,
           clock_timestamp() + interval '1 h', 1, 0, 10, 100, 50, 2, 'toy', '/v1/chat/completions'
    FROM flows, generate_series(1, (CASE WHEN n %% 20 = 0 THEN 5 ELSE 1 END) * %(jobs)s / %(tenants)s) AS ord;
INSERT INTO segments (tenant_id, kind, object_key, bytes) SELECT id, 'input', id, 1 FROM tenants;
"""


BURST = """
INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost)
    SELECT gen_random_uuid(), fence, 'charge', 'toy', 2, tenant_id, flow_id, 1
    FROM flows, generate_series(1, 4) AS fence
"""
UNDER_TURNSTILE = ("fold_deltas", "snapshot", "claim")
OTHERS = (
    "claim_suspects", "suspects_wait", "activate", "give_back", "finish", "due", "pick_expired",
    "pick_cancelled", "stop_running", "rescue", "wake_delayed", "age_ranks",
)  # fmt: skip


@dataclass
class Crowd:
    """A long queue of many tenants, seen from one connection that rolls back what it does."""

    connection: psycopg.Connection[Any]
    boot: UUID
    tenant: UUID
    flow: UUID
    ended_flow: UUID

    def reads(self, name: str, mode: str) -> dict[str, float]:
        """Rows that each node of the statement's plan reads of our tables, by its name and table."""
        given = {
            **SCOPE, **PRICES,
            "chunk": 5_000, "progress_rows": 200, "age_seconds": 60.0, "turnstile_seconds": 0.1,
            "accounts": ACCOUNTS, "flows": 16 if name == "snapshot" else [self.flow], "lowest": 0.0,
            "late_jobs": 256,
            "boot_id": self.boot, "tenants": [self.tenant], "counts": [32], "ranks": [0], "buckets": [1],
            "ords": [1], "tenant_id": self.tenant, "flow_id": self.ended_flow, "tenant_level": TENANT_LEVEL,
            "job_ids": [uuid4()], "fences": [1], "delays_ms": [0], "blames": [False], "groups": [uuid4()],
            "bounds": BUCKET_BOUNDS, "states": ["succeeded"], "status_codes": [200], "error_codes": [None],
            "input_tokens": [1], "cached_tokens": [0], "output_tokens": [1], "reasoning_tokens": [0],
            "started_ms": [1], "ended_ms": [2], "bodies": [b"{}"], "segment_ids": [None], "lengths": [None],
        }  # fmt: skip
        names: list[str] = []

        def numbered(found: re.Match[str]) -> str:
            if found[1] not in names:
                names.append(found[1])
            return f"${names.index(found[1]) + 1}"

        lines = [line for line in statement(name).text.splitlines() if not line.lstrip().startswith("--")]
        text = re.sub(r"(?<![:\w]):(\w+)", numbered, "\n".join(lines))
        values = sql.SQL(", ").join(sql.Literal(given[one]) for one in names)
        with self.connection.transaction(force_rollback=True):
            self.connection.execute(f"SET LOCAL plan_cache_mode = force_{mode}_plan".encode())
            if name in UNDER_TURNSTILE:
                enter = statement("enter_turnstile").text.replace(":model", "'toy'").replace(":lane", "2")
                self.connection.execute(enter.encode())
            self.connection.execute(f"PREPARE explained AS {text}".encode())
            called = sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE explained{}").format(
                sql.SQL("({})").format(values) if names else sql.SQL("")
            )
            row = self.connection.execute(called).fetchone()
            self.connection.execute("DEALLOCATE explained")
        assert row is not None
        return dict(_reads(row[0][0]["Plan"]))


def _reads(node: dict[str, Any]) -> Iterator[tuple[str, float]]:
    source = node.get("Relation Name", node.get("Index Name"))
    if source is not None and node["Node Type"] != "ModifyTable" and node["Actual Loops"]:
        name = f"{node['Node Type']} {node.get('Alias', '')} {source} {node.get('Index Name', '')}"
        yield (
            name,
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"],
        )
    for child in node.get("Plans", []):
        yield from _reads(child)


@contextmanager
def crowd(world: World, boot: UUID, *, jobs: int, tenants: int, analysed: bool) -> Iterator[Crowd]:
    url = world.database.url.render_as_string(hide_password=False).replace("+psycopg", "")
    # As the superuser: a role that does not own the tables is only warned, and nothing is analysed.
    with psycopg.connect(url, autocommit=True) as connection:
        if not analysed:  # as in the first minutes of a database
            connection.execute("ALTER TABLE jobs SET (autovacuum_enabled = off)")
            connection.execute("ALTER TABLE lane_accounts SET (autovacuum_enabled = off)")
        with psycopg.ClientCursor(connection) as cursor:
            cursor.execute(FILL.encode(), {"jobs": jobs, "tenants": tenants, "level": TENANT_LEVEL})
        if analysed:  # at a busy moment: most accounts had something to fold
            connection.execute(BURST)
            connection.execute("VACUUM ANALYZE")
            connection.execute("DELETE FROM account_deltas")
        first = connection.execute("SELECT tenant_id, flow_id FROM flows WHERE n = 1").fetchone()
        assert first is not None
        connection.execute("SET ROLE fairlane_engine")
        yield Crowd(connection, boot, first[0], first[1], uuid4())


async def _served(world: World, boot: UUID) -> None:
    """Some claims, so that there are deltas to fold and leases to look at."""
    for _ in range(3):
        assert await claim(
            world.database, model=MODEL, lane=Lane.BULK, boot_id=boot, free_seats=32, policy=DEFAULT
        )


async def _assert_short(world: World, *, jobs: int, tenants: int, analysed: bool) -> None:
    boot = await world.worker()
    with crowd(world, boot, jobs=jobs, tenants=tenants, analysed=analysed) as seen:
        await _served(world, boot)
        for mode in ("custom", "generic"):
            # What nobody waits for may be slow until the first statistics are there.
            for name in (*UNDER_TURNSTILE, *OTHERS) if analysed else UNDER_TURNSTILE:
                read = seen.reads(name, mode)
                assert all(rows <= 3 * ACCOUNTS for rows in read.values()), (name, mode, read)


@pytest.mark.parametrize("analysed", [True, False])
async def test_a_long_queue_of_many_tenants_is_not_read_through(world: World, analysed: bool) -> None:
    await _assert_short(world, jobs=20_000, tenants=2_000, analysed=analysed)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("analysed", [True, False])
async def test_a_million_jobs_of_ten_thousand_tenants_are_not_read_through(
    world: World, analysed: bool
) -> None:
    await _assert_short(world, jobs=1_000_000, tenants=10_000, analysed=analysed)
