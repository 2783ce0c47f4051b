"""Files that are there: lists, contents, deleting."""

from __future__ import annotations

import os

import httpx
import pytest
from openai import NotFoundError

from tests.api.conftest import LINE, Running, Tenant, error_of


def test_a_list_is_read_page_by_page(tenant: Tenant) -> None:
    ids = [tenant.upload() for _ in range(5)]
    first = tenant.client.files.list(limit=2)
    assert [file.id for file in first.data] == [ids[4], ids[3]]
    assert first.has_more
    raw = tenant.http.get("/v1/files", params={"limit": 2}).json()
    assert (raw["object"], raw["first_id"], raw["last_id"]) == ("list", ids[4], ids[3])
    # the client follows the pages by itself
    assert [file.id for file in tenant.client.files.list(limit=2)] == ids[::-1]
    assert [file.id for file in tenant.client.files.list(limit=2, order="asc")] == ids
    last = tenant.client.files.list(limit=2, after=ids[1])
    assert ([file.id for file in last.data], last.has_more) == ([ids[0]], False)


def test_rows_of_one_moment_are_each_listed_once(tenant: Tenant, running: Running) -> None:
    ids = {tenant.upload() for _ in range(5)}
    running.sql("UPDATE files SET created_at = '2026-01-01' WHERE tenant_id = %s", tenant.id)
    listed = [file.id for file in tenant.client.files.list(limit=2)]
    assert len(listed) == 5
    assert set(listed) == ids


def test_an_empty_list_has_no_first_and_last(tenant: Tenant) -> None:
    listed = tenant.http.get("/v1/files").json()
    assert listed == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


def test_a_list_may_be_of_one_purpose(tenant: Tenant, running: Running) -> None:
    upload, result = tenant.upload(), tenant.upload()
    running.sql("UPDATE files SET purpose = 'batch_output' WHERE id = %s", result.removeprefix("file-"))
    assert [file.id for file in tenant.client.files.list(purpose="batch")] == [upload]
    assert [file.id for file in tenant.client.files.list(purpose="batch_output")] == [result]
    assert [file.id for file in tenant.client.files.list()] == [result, upload]
    assert tenant.client.files.list(purpose="no such").data == []


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("limit=x", "limit"),
        ("order=up", "order"),
        ("purpose=a%00", "purpose"),
    ],
)
def test_wrong_queries_are_bad_requests(tenant: Tenant, query: str, param: str) -> None:
    answer = tenant.http.get(f"/v1/files?{query}")
    assert (answer.status_code, error_of(answer)["param"]) == (400, param)


def test_content_is_saved_and_never_shown(tenant: Tenant) -> None:
    answer = tenant.http.get(f"/v1/files/{tenant.upload()}/content")
    assert answer.content == LINE
    assert answer.headers["content-type"] == "application/jsonl"
    assert answer.headers["content-length"] == str(len(LINE))
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''in.jsonl"


def test_a_deleted_file_is_gone_for_everybody(tenant: Tenant, running: Running) -> None:
    kept, deleted, older = tenant.upload(), tenant.upload(), tenant.upload()
    answer = tenant.client.files.delete(deleted)
    assert (answer.id, answer.object, answer.deleted) == (deleted, "file", True)
    with pytest.raises(NotFoundError):
        tenant.client.files.retrieve(deleted)
    with pytest.raises(NotFoundError):
        tenant.client.files.content(deleted)
    with pytest.raises(NotFoundError):
        tenant.client.files.delete(deleted)
    with pytest.raises(NotFoundError):
        tenant.batch(deleted)
    assert [file.id for file in tenant.client.files.list()] == [older, kept]
    # one may delete while reading page by page
    assert [file.id for file in tenant.client.files.list(after=deleted)] == [kept]
    # its bytes wait for maintenance, since a batch may need them
    uuid = deleted.removeprefix("file-")
    assert running.sql("SELECT erased_at FROM files WHERE id = %s", uuid) == [(None,)]


def test_an_expired_file_is_gone_before_it_is_swept(tenant: Tenant, running: Running) -> None:
    file_id = tenant.upload()
    running.sql(
        "UPDATE files SET expires_at = clock_timestamp() WHERE id = %s", file_id.removeprefix("file-")
    )
    with pytest.raises(NotFoundError):
        tenant.client.files.retrieve(file_id)
    assert tenant.client.files.list().data == []


def test_a_download_that_fails_midway_is_seen_by_the_client(tenant: Tenant, running: Running) -> None:
    file_id = tenant.upload(LINE * 100)
    query = "SELECT object_key FROM files WHERE id = %s"
    ((key,),) = running.sql(query, file_id.removeprefix("file-"))
    os.truncate(running.objects / key, len(LINE))
    with pytest.raises(httpx.RemoteProtocolError):
        tenant.http.get(f"/v1/files/{file_id}/content")
    assert tenant.http.get("/v1/files").status_code == 200
