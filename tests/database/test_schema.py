"""The schema: migrations and tables agree, go up from nothing and down again, and state the rules."""

from __future__ import annotations

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, pool

import db.tables
from db.schema import REVISION
from migrations.run import current, downgrade, head, upgrade
from tests.world import World

# The same line of the same batch, under another id.
TWICE = """
INSERT INTO jobs SELECT (jsonb_populate_record(j, jsonb_build_object('id', uuidv7()))).* FROM jobs AS j
"""

_PARTITIONS = ("jobs_done_", "outcomes_")


def _differences(url: str) -> list[object]:
    def ours(name: str | None, kind: str, _parents: object) -> bool:
        return kind != "table" or not (name or "").startswith((*_PARTITIONS, "alembic_version"))

    engine = create_engine(url, poolclass=pool.NullPool)
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True, "include_name": ours}
        context = MigrationContext.configure(connection, opts=options)
        return list(compare_metadata(context, db.tables.metadata))


def test_tables_and_migrations_agree(database_url: str) -> None:
    assert _differences(database_url) == []


def test_every_migration_can_be_undone_and_done_again(database_url: str) -> None:
    for left in ("0002", "0001", None):
        downgrade(database_url)
        assert current(database_url) == left
    upgrade(database_url)
    assert current(database_url) == head() == REVISION
    assert _differences(database_url) == []


async def test_jobs_outlive_going_down_and_up(world: World, database_url: str) -> None:
    tenant = await world.tenant()
    await world.batch(tenant, 3)
    await world.claim(await world.worker(), 1)
    await world.execute(
        "UPDATE jobs SET suspects = gen_random_uuid(), suspected_at = clock_timestamp() WHERE line = 3"
    )

    downgrade(database_url)
    downgrade(database_url)
    upgrade(database_url)

    assert await world.states() == {"running": 1, "queued": 2}
    claimed = await world.claim(await world.worker(), 3)
    assert len(claimed) == 2, "who was a suspect is an ordinary job again"


@pytest.mark.parametrize(
    "broken",
    [
        "UPDATE jobs SET state = 'running'",  # without a worker
        "UPDATE jobs SET boot_id = gen_random_uuid()",  # queued, yet held
        "UPDATE jobs SET state = 'succeeded'",  # an ended job among the live ones
        "UPDATE jobs SET state = 'cancelling', boot_id = gen_random_uuid(), claimed_at = now()",  # no reason
        "UPDATE jobs SET line = NULL",
        "UPDATE jobs SET suspects = gen_random_uuid()",  # since when?
        "UPDATE jobs SET lane = 3",
        TWICE,
        "UPDATE batches SET status = 'completed'",  # without its time
    ],
)
async def test_the_database_refuses_what_the_rules_forbid(world: World, broken: str) -> None:
    await world.batch(await world.tenant(), 1)

    raw = world.database.url.render_as_string(hide_password=False).replace("+psycopg", "")
    with (
        psycopg.connect(raw) as connection,
        pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.UniqueViolation)),
    ):
        connection.execute(broken.encode())
