"""Upload: a form's file goes straight to the object store, and its row is written after it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from typing import Protocol
from uuid import UUID, uuid4

from api.multipart import PartStart
from api.refusals import (
    FileTooLarge,
    IdempotencyKeyReused,
    InvalidFileFormat,
    InvalidValue,
    MissingParameter,
    UnknownParameter,
)
from api.services import Services
from api.usecases.files import no_file
from db.connect import tenant_transaction
from db.files import File, NewFile, add_file, get_file
from db.once import Name, OtherRequest, made_before, remember
from lanes.ids import Prefix, spell

_FILE, _PURPOSE = "file", "purpose"
_ANCHOR, _SECONDS = "expires_after[anchor]", "expires_after[seconds]"
_FIELDS = frozenset({_FILE, _PURPOSE, _ANCHOR, _SECONDS})
_FIELD_BYTES = 256
_FILENAME_CHARACTERS = 255
_KEPT = timedelta(days=30)
_SHORTEST_S, _LONGEST_S = 3600, 2_592_000


class Sink(Protocol):
    async def write(self, data: bytes, /) -> int: ...


async def upload_file(
    services: Services,
    tenant_id: UUID,
    parts: AsyncIterator[PartStart | bytes],
    name_of_request: Callable[[Mapping[str, str]], Name],
) -> tuple[File, bool]:
    """Store the file of a form. With it, whether an earlier try had stored it.

    The row is written once the bytes are durable. If the client goes away or the form is refused,
    neither is there; if the process dies between the two, bytes without a row are left.

    Raises:
        Refusal: the form is malformed, or a field is missing, unknown or wrong.
        IdempotencyKeyReused: the client gave its key to another upload.
        NotFound: the file that an earlier try stored is gone.
    """
    key = f"uploads/{uuid4().hex}"
    form = _Form(services.max_file_bytes)
    async with services.objects.writer(key) as sink:
        await form.read(parts, sink)
        name = name_of_request(form.asked())
    async with tenant_transaction(services.engine, tenant_id) as connection:
        try:
            before = await made_before(connection, tenant_id, name)
        except OtherRequest:
            raise IdempotencyKeyReused from None
        if before is None:
            made = await add_file(connection, tenant_id, form.file(key))
            await remember(connection, tenant_id, name, made.id)
            return made, False
        file = await get_file(connection, tenant_id, before)
    # Only the digest of these bytes was needed; after a refusal the sweep of lost bytes takes them.
    await services.objects.delete([key])
    if file is None:
        raise no_file(spell(Prefix.FILE, before))
    return file, True


class _Form:
    """The fields of an upload, in any order; each is checked as soon as it is whole."""

    def __init__(self, max_file_bytes: int) -> None:
        self._max_file_bytes = max_file_bytes
        self._fields: dict[str, bytearray] = {}
        self._filename = ""
        self._bytes = 0
        self._digest = hashlib.sha256()

    async def read(self, parts: AsyncIterator[PartStart | bytes], sink: Sink) -> None:
        name = None
        async for event in parts:
            if isinstance(event, PartStart):
                self._check(name)
                name = event.name
                self._start(event)
            elif name == _FILE:
                self._bytes += len(event)
                if self._bytes > self._max_file_bytes:
                    raise FileTooLarge(self._max_file_bytes)
                self._digest.update(event)
                await sink.write(event)
            elif name is not None:
                self._fields[name] += event
                if len(self._fields[name]) > _FIELD_BYTES:
                    raise InvalidValue(name, "It is too long.")
        self._check(name)
        for required in (_FILE, _PURPOSE):
            if required not in self._fields:
                raise MissingParameter(required)
        for one, other in ((_ANCHOR, _SECONDS), (_SECONDS, _ANCHOR)):
            if one in self._fields and other not in self._fields:
                raise MissingParameter(other)

    def asked(self) -> Mapping[str, str]:
        """What the form says, its file by digest: equal for two forms that ask for the same."""
        plain = {name: value.decode() for name, value in self._fields.items() if name != _FILE}
        return plain | {"filename": self._filename, "sha256": self._digest.hexdigest()}

    def file(self, object_key: str) -> NewFile:
        seconds = self._fields.get(_SECONDS)
        return NewFile(
            purpose="batch",
            filename=self._filename,
            bytes=self._bytes,
            object_key=object_key,
            lives=_KEPT if seconds is None else timedelta(seconds=int(seconds)),
        )

    def _start(self, part: PartStart) -> None:
        if part.name not in _FIELDS:
            raise UnknownParameter(part.name)
        if part.name in self._fields:
            raise InvalidValue(part.name, "Send it once.")
        self._fields[part.name] = bytearray()
        if part.name == _FILE:
            self._filename = _checked_filename(part.filename)

    def _check(self, name: str | None) -> None:
        """A field that is not the file has ended."""
        value = b"" if name is None else bytes(self._fields[name])
        if name == _PURPOSE and value != b"batch":
            raise InvalidValue(_PURPOSE, "Only 'batch' is accepted here.")
        if name == _ANCHOR and value != b"created_at":
            raise InvalidValue(_ANCHOR, "Only 'created_at' is known.")
        if name == _SECONDS and not (value.isdigit() and _SHORTEST_S <= int(value) <= _LONGEST_S):
            raise InvalidValue(_SECONDS, f"Give a whole number from {_SHORTEST_S} to {_LONGEST_S}.")


def _checked_filename(sent: str | None) -> str:
    """The last part of the client's path. It is shown again, and never used as a path of ours."""
    filename = (sent or "").replace("\\", "/").rpartition("/")[2]
    if not filename:
        raise InvalidValue(_FILE, "Send it as a file, with a file name.")
    if len(filename) > _FILENAME_CHARACTERS or not filename.isprintable():
        raise InvalidValue(_FILE, f"Give it a name of at most {_FILENAME_CHARACTERS} printable characters.")
    if not filename.lower().endswith(".jsonl"):
        raise InvalidFileFormat
    return filename
