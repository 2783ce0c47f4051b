"""The API is killed between the insert of a batch and its commit: nothing exists, a repeat works."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import psycopg
from openai import APIConnectionError, OpenAI

from db.embedded import EmbeddedServers
from tests.api.conftest import LINE, Running, new_key, running_api
from tests.eventually import eventually

# The insert of a batch stops in the server, its row written, for as long as the test holds this lock.
_LOCK = 4711
_PAUSE = f"""
    CREATE FUNCTION pause_insert() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_advisory_xact_lock_shared({_LOCK}); RETURN NULL; END $$;
    CREATE TRIGGER pause_insert AFTER INSERT ON batches FOR EACH ROW EXECUTE FUNCTION pause_insert();
"""
_IN_API = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE application_name = 'fairlane-api' AND datname = current_database()"
)


def folder(parent: Path, name: str) -> Path:
    """One for each process: each says there that it is ready."""
    (parent / name).mkdir()
    return parent / name


def create(api: Running, key: str, file_id: str) -> str:
    client = OpenAI(base_url=f"{api.url}/v1", api_key=key, max_retries=0)
    with client:
        batch = client.batches.create(
            input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h"
        )
    return batch.id


def test_nothing_exists_and_a_repeat_works(
    servers: EmbeddedServers, database_url: str, tmp_path: Path
) -> None:
    url = database_url.replace("+psycopg", "")
    _, key = asyncio.run(new_key(url))
    with psycopg.connect(url, autocommit=True) as holder:
        with running_api(folder(tmp_path, "first"), url, servers.redis_url) as api:
            with OpenAI(base_url=f"{api.url}/v1", api_key=key) as client:
                file_id = client.files.create(file=("a.jsonl", LINE), purpose="batch").id
            holder.execute(_PAUSE.encode())
            holder.execute(f"SELECT pg_advisory_lock({_LOCK})".encode())
            answers: list[object] = []
            asked = threading.Thread(target=lambda: answers.append(answer(api, key, file_id)))
            asked.start()
            eventually(lambda: api.sql(f"{_IN_API} AND wait_event = 'advisory'"))

            os.kill(api.pid, signal.SIGKILL)
            asked.join()
            assert isinstance(answers[0], APIConnectionError), answers
        holder.execute(f"SELECT pg_advisory_unlock({_LOCK})".encode())
        eventually(lambda: not api.sql(_IN_API))

        assert api.sql("SELECT id FROM batches") == []
        with running_api(folder(tmp_path, "again"), url, servers.redis_url) as again:
            batch = create(again, key, file_id)
            assert [f"batch_{row[0].hex}" for row in again.sql("SELECT id FROM batches")] == [batch]


def answer(api: Running, key: str, file_id: str) -> object:
    try:
        return create(api, key, file_id)
    except APIConnectionError as error:
        return error
