"""POST /v1/files: what is taken, what is refused, and what a refusal leaves behind."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.api.conftest import LINE, Running, Tenant, app_in_this_process, error_of, new_key
from tests.eventually import eventually

FORM = {"Content-Type": "multipart/form-data; boundary=B"}
MIB = 1 << 20


def field(name: str, value: str) -> bytes:
    return f'--B\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def file_part(content: bytes = LINE, name: str = "in.jsonl") -> bytes:
    head = f'--B\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return head.encode() + content + b"\r\n"


PURPOSE, END = field("purpose", "batch"), b"--B--\r\n"


def test_the_official_client_uploads_and_reads_back(tenant: Tenant) -> None:
    file = tenant.client.files.create(file=("in.jsonl", LINE * 3), purpose="batch")
    assert (file.object, file.purpose, file.filename) == ("file", "batch", "in.jsonl")
    assert file.status == "processed"
    assert file.bytes == 3 * len(LINE)
    assert file.expires_at == file.created_at + 30 * 24 * 3600
    assert tenant.client.files.retrieve(file.id) == file
    assert tenant.client.files.wait_for_processing(file.id).id == file.id
    assert tenant.client.files.content(file.id).content == LINE * 3


def test_a_client_may_choose_when_its_file_expires(tenant: Tenant) -> None:
    file = tenant.client.files.create(
        file=("in.jsonl", LINE), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert file.expires_at == file.created_at + 3600


@pytest.mark.parametrize("parts", [(PURPOSE, file_part()), (file_part(), PURPOSE)], ids=["before", "after"])
def test_the_purpose_may_come_before_or_after_the_file(tenant: Tenant, parts: tuple[bytes, ...]) -> None:
    answer = tenant.http.post("/v1/files", content=b"".join(parts) + END, headers=FORM)
    assert answer.status_code == 200, answer.text
    assert tenant.client.files.content(answer.json()["id"]).content == LINE


def test_a_body_may_come_in_any_pieces(tenant: Tenant) -> None:
    """Every byte of the form alone: boundaries are found wherever the network cuts them."""
    content = b'{"a": "\r\n--A\r\n-\r\r\n--"}\n' * 5
    body = PURPOSE + file_part(content) + END

    def bytewise() -> Iterator[bytes]:
        for at in range(len(body)):
            yield body[at : at + 1]

    answer = tenant.http.post("/v1/files", content=bytewise(), headers=FORM)
    assert answer.status_code == 200, answer.text
    assert tenant.client.files.content(answer.json()["id"]).content == content


def test_a_name_is_a_name_and_never_a_path(tenant: Tenant, running: Running) -> None:
    body = PURPOSE + file_part(name="../../../tmp/stolen.jsonl") + END
    file = tenant.http.post("/v1/files", content=body, headers=FORM).json()
    assert file["filename"] == "stolen.jsonl"
    disposition = tenant.http.get(f"/v1/files/{file['id']}/content").headers["content-disposition"]
    assert disposition == "attachment; filename*=UTF-8''stolen.jsonl"
    assert not Path("/tmp/stolen.jsonl").exists()


def test_names_in_other_scripts_come_through(tenant: Tenant) -> None:
    file_id = tenant.upload(name="données 質問.jsonl")
    assert tenant.client.files.retrieve(file_id).filename == "données 質問.jsonl"
    assert tenant.http.get(f"/v1/files/{file_id}/content").status_code == 200


def test_an_empty_file_is_taken_and_left_to_validation(tenant: Tenant) -> None:
    file_id = tenant.upload(b"")
    assert tenant.client.files.retrieve(file_id).bytes == 0
    assert tenant.client.files.content(file_id).content == b""


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (field("purpose", "fine-tune") + file_part() + END, "invalid_value", "purpose"),
        (file_part() + field("purpose", "vision") + END, "invalid_value", "purpose"),
        (file_part() + END, "missing_required_parameter", "purpose"),
        (PURPOSE + END, "missing_required_parameter", "file"),
        (PURPOSE + file_part(name="in.csv") + END, "invalid_file_format", "file"),
        (PURPOSE + file_part(name="") + END, "invalid_value", "file"),
        (PURPOSE + file_part(name="a\x07.jsonl") + END, "invalid_value", "file"),
        (PURPOSE + PURPOSE + file_part() + END, "invalid_value", "purpose"),
        (PURPOSE + file_part() + file_part() + END, "invalid_value", "file"),
        (PURPOSE + field("model", "m") + file_part() + END, "unknown_parameter", "model"),
        (field("purpose", "b" * 300) + file_part() + END, "invalid_value", "purpose"),
        (
            PURPOSE + field("expires_after[seconds]", "3600") + file_part() + END,
            "missing_required_parameter",
            "expires_after[anchor]",
        ),
        (
            PURPOSE + field("expires_after[anchor]", "created_at") + file_part() + END,
            "missing_required_parameter",
            "expires_after[seconds]",
        ),
        (PURPOSE + field("expires_after[seconds]", "60") + END, "invalid_value", "expires_after[seconds]"),
        (PURPOSE + field("expires_after[anchor]", "now") + END, "invalid_value", "expires_after[anchor]"),
        (PURPOSE + file_part(), "malformed_form", None),
        (b"no form at all", "malformed_form", None),
        (b"", "malformed_form", None),
        (b"--B\r\nContent-Disposition: form-data\r\n\r\nx\r\n" + END, "malformed_form", None),
        (b"--B\r\nContent-Disposition: form-data; name=\xff\r\n\r\nx\r\n" + END, "malformed_form", None),
    ],
)
def test_refusals_say_what_to_change_and_leave_nothing(
    tenant: Tenant, running: Running, body: bytes, code: str, param: str | None
) -> None:
    before = running.stored()
    answer = tenant.http.post("/v1/files", content=body, headers=FORM)
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["param"]) == (400, code, param)
    assert running.stored() == before
    assert tenant.client.files.list().data == []


def test_a_large_upload_that_is_refused_at_its_start_hears_why(tenant: Tenant) -> None:
    body = field("purpose", "vision") + file_part(b"x" * 50 * MIB) + END
    answer = tenant.http.post("/v1/files", content=body, headers=FORM)
    assert (answer.status_code, error_of(answer)["param"]) == (400, "purpose")
    answer = tenant.http.post("/v1/files", content=body, headers=FORM | {"Authorization": "Bearer x"})
    assert (answer.status_code, error_of(answer)["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data", "text/plain; boundary=B", ""])
def test_an_upload_that_is_no_form_is_refused(tenant: Tenant, kind: str) -> None:
    answer = tenant.http.post("/v1/files", content=b"{}", headers={"Content-Type": kind})
    assert (answer.status_code, error_of(answer)["code"]) == (400, "malformed_form")


def test_an_encoded_upload_is_refused(tenant: Tenant) -> None:
    headers = FORM | {"Content-Encoding": "gzip"}
    answer = tenant.http.post("/v1/files", content=PURPOSE + file_part() + END, headers=headers)
    assert (answer.status_code, error_of(answer)["code"]) == (415, "unsupported_content_encoding")


def test_a_client_that_leaves_leaves_nothing(tenant: Tenant, running: Running) -> None:
    before = running.stored()
    host, _, port = running.url.removeprefix("http://").partition(":")
    head = (
        f"POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenant.key}\r\n"
        f"Content-Type: multipart/form-data; boundary=B\r\nContent-Length: {100 * MIB}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + PURPOSE + file_part(b"x" * 20 * MIB))
        eventually(lambda: running.stored() != before)  # the bytes are on their way to the store
    eventually(lambda: running.stored() == before)
    eventually(lambda: '"status": 499' in running.log.read_text())
    assert tenant.client.files.list().data == []


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
async def test_a_file_above_the_limit_is_refused(
    tmp_path: Path, database_url: str, *, declared: bool
) -> None:
    _, key = await new_key(database_url)
    body = PURPOSE + file_part(b"x" * 1001) + END

    async def pieces() -> object:
        yield body

    async with app_in_this_process(database_url, tmp_path, key=key) as client:
        content = body if declared else pieces()
        answer = await client.post("/v1/files", content=content, headers=FORM)  # type: ignore[arg-type]  # httpx takes any async iterator
    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "file_too_large")
    assert error["message"].startswith("File is too large.")
    assert not any(path.is_file() for path in tmp_path.rglob("*"))  # noqa: ASYNC240 - nothing else runs here


async def test_a_form_that_is_far_too_long_is_refused_before_it_is_read(
    tmp_path: Path, database_url: str
) -> None:
    _, key = await new_key(database_url)
    async with app_in_this_process(database_url, tmp_path, key=key) as client:
        headers = FORM | {"Content-Length": str(10 * MIB)}
        answer = await client.post("/v1/files", content=b"", headers=headers)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "file_too_large")


def test_memory_does_not_grow_with_the_file(tenant: Tenant, running: Running) -> None:
    size = 256 * MIB
    piece = os.urandom(MIB // 2).hex().encode()
    process = psutil.Process(running.pid)
    tenant.upload(piece)  # what the first upload loads is no growth
    idle = process.memory_info().rss
    peak, done = idle, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, process.memory_info().rss)

    def form() -> Iterator[bytes]:
        yield PURPOSE + file_part(b"")[:-2]
        for _ in range(size // len(piece)):
            yield piece
        yield b"\r\n" + END

    watcher = threading.Thread(target=watch)
    watcher.start()
    answer = tenant.http.post("/v1/files", content=form(), headers=FORM, timeout=60)
    received = sum(len(chunk) for chunk in _content(tenant.http, answer.json()["id"]))
    done.set()
    watcher.join()
    assert answer.json()["bytes"] == received == size
    assert peak - idle < 64 * MIB
    print(f"growth {(peak - idle) / MIB:.1f} MiB")


def _content(http: httpx.Client, file_id: str) -> Iterator[bytes]:
    with http.stream("GET", f"/v1/files/{file_id}/content", timeout=60) as answer:
        yield from answer.iter_bytes()
