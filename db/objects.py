"""Object storage: a local folder by default, any S3-compatible store by its URL (obstore).

Keys are made from ids of ours, never from a client's words. Objects are written once and never
changed. A write that returned is on disk: the local store renames into place but leaves the
flushing to the kernel, so this module does it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import LocalStore, from_url

if TYPE_CHECKING:
    from obstore import AsyncWritableFile

CHUNK_BYTES = 1 << 20


class ObjectLost(Exception):
    """An object that a row names is not in the store."""


class StoreUnreachable(Exception):
    """The store did not take or give an object; it may a moment later."""


@contextmanager
def _told_apart(key: str) -> Iterator[None]:
    """Turn the store's errors into the two that callers treat differently."""
    try:
        yield
    except (NotFoundError, FileNotFoundError) as error:
        raise ObjectLost(key) from error
    except (BaseError, OSError) as error:
        raise StoreUnreachable(f"{key}: {type(error).__name__}") from error


class Objects:
    """The object store behind one URL, such as file:///var/lib/fairlane/objects."""

    def __init__(self, url: str) -> None:
        parsed = urlparse(url)
        self._folder = Path(unquote(parsed.path)) if parsed.scheme == "file" else None
        if self._folder is None:
            self._store = from_url(url)
        else:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._store = LocalStore(self._folder)

    async def put(self, key: str, data: bytes | bytearray) -> None:
        """Store an object whole.

        Raises:
            StoreUnreachable: it may not be stored.
        """
        with _told_apart(key):
            await obstore.put_async(self._store, key, data, use_multipart=False)
            await self._flush(key)

    @asynccontextmanager
    async def writer(self, key: str) -> AsyncIterator[AsyncWritableFile]:
        """Stream an object in; it exists once the block ends, and not at all if the block raises.

        Memory stays at about one buffer, however large the object grows.
        """
        handle = obstore.open_writer_async(self._store, key, buffer_size=8 * CHUNK_BYTES)
        try:
            yield handle
        except BaseException:
            await asyncio.shield(self._discard(handle, key))
            raise
        await handle.close()
        await self._flush(key)

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        """The object's bytes in chunks of about 1 MiB.

        Raises:
            ObjectLost: there is no such object.
            StoreUnreachable: the store does not answer.
        """
        with _told_apart(key):
            result = await obstore.get_async(self._store, key)
        async for chunk in result.stream(min_chunk_size=CHUNK_BYTES):
            yield bytes(chunk)

    async def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length), in one request where the store allows it.

        Raises:
            ObjectLost: there is no such object.
            StoreUnreachable: the store does not answer.
        """
        with _told_apart(key):
            parts = await obstore.get_ranges_async(
                self._store,
                key,
                starts=[offset for offset, _ in ranges],
                lengths=[length for _, length in ranges],
            )
        return [bytes(part) for part in parts]

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are gone already do not matter."""
        for key in keys:
            try:
                await obstore.delete_async(self._store, key)
            except (NotFoundError, FileNotFoundError):
                continue

    async def keys_before(self, prefix: str, moment: datetime) -> AsyncIterator[list[str]]:
        """Pages of the keys below a prefix that were last written before a moment."""
        async for page in obstore.list(self._store, prefix, chunk_size=1_000):
            keys = [found["path"] for found in page if found["last_modified"] < moment]
            if keys:
                yield keys

    async def _flush(self, key: str) -> None:
        if self._folder is not None:
            await asyncio.to_thread(_flush_to_disk, self._folder / key, self._folder)

    async def _discard(self, handle: AsyncWritableFile, key: str) -> None:
        await handle.close()
        await self.delete([key])


def _flush_to_disk(path: Path, root: Path) -> None:
    """The file, and every folder that may be as new as the file."""
    folders = [folder for folder in path.parents if folder.is_relative_to(root)]
    for target in (path, *folders):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
