"""Ingest: one uploaded file becomes segments and queued jobs, exactly once.

The file is read in pieces of about 8 MB. The bodies of a piece become a segment, its lines wait
in a temporary table; when all are known, one transaction under the batch's fence queues every
job. Until that commits nothing of the batch can be seen, and a crash leaves a batch that the
next run validates from its first byte, under a new fence and with new segments.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import structlog
from sqlalchemy.exc import SQLAlchemyError

from db import ingest
from db.deployments import list_deployments
from db.ingest import ValidatingBatch, ValidationLost
from db.lengths import predictor
from db.objects import ObjectLost
from db.staging import Staging, staging
from lanes.line import LineError, LineRules
from lanes.pieces import WHOLE_FILE, Piece, PieceReader
from workers.maintenance.services import Parts

# Errors that a batch cannot outlive, even where bad lines are recorded and passed over.
_FATAL = frozenset({"empty_batch", "too_many_tasks", "input_file_not_found"})

log = structlog.get_logger()


class Ingest:
    """Validates one batch a run. Any number may run at once, in any number of processes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_once(self) -> bool:
        """True when a batch was taken."""
        batch = await ingest.take_validating_batch(self._parts.database, self._parts.policy)
        if batch is None:
            return False
        began = time.monotonic()
        run = _Run(self._parts, batch)
        try:
            async with _kept(self._parts, batch), staging(self._parts.database) as staged:
                models = await run.validate(staged)
        except ValidationLost:
            await run.discard()
            await ingest.let_go(self._parts.database, batch)
            log.warning("batch.validation_lost", batch=str(batch.id), fence=batch.fence)
            return True
        for model in models:
            await self._parts.doorbell.ring_workers(model)
        log.info(
            "batch.validated",
            batch=str(batch.id),
            tenant=str(batch.tenant_id),
            started=bool(models),
            seconds=round(time.monotonic() - began, 3),
        )
        return True


class _Run:
    """One validation of one batch."""

    def __init__(self, parts: Parts, batch: ValidatingBatch) -> None:
        self._parts = parts
        self._batch = batch
        self._rejects = batch.on_invalid_line == "reject"
        self._keys: list[str] = []  # of the objects that this run wrote or was about to write
        self._errors = 0
        self._fatal = False

    async def validate(self, staged: Staging) -> Sequence[str]:
        """Start the batch or fail it; the models that have work now.

        Raises:
            ValidationLost: the batch was cancelled or taken over; nothing of it was changed.
        """
        await self._sweep_older()
        await self._read(staged)
        self._errors += await staged.refuse_duplicates()
        if not self._doomed:
            return await ingest.start_batch(staged.connection, self._batch, self._parts.policy)
        await self.discard()
        size = await self._write_errors(staged)
        await ingest.fail_batch(staged.connection, self._batch, size, self._parts.policy)
        return ()

    async def discard(self) -> None:
        """Remove what this run wrote; objects first, so that a crash in between forgets none."""
        keys, self._keys = self._keys, []
        await self._parts.objects.delete(keys)
        await ingest.forget_segments(self._parts.database, keys)

    @property
    def _doomed(self) -> bool:
        return self._fatal or (self._rejects and self._errors > 0)

    async def _sweep_older(self) -> None:
        """Remove what validations that ended half-way left behind."""
        keys = await ingest.input_segments(self._parts.database, self._batch, self._batch.fence)
        lists = [ingest.errors_key(self._batch, fence) for fence in range(1, self._batch.fence)]
        await self._parts.objects.delete([*keys, *lists])
        await ingest.forget_segments(self._parts.database, keys)

    async def _read(self, staged: Staging) -> None:
        batch, policy = self._batch, self._parts.policy
        async with self._parts.database.begin() as connection:
            models = frozenset(deployment.name for deployment in await list_deployments(connection))
            known = await predictor(connection, batch.tenant_id, policy)
        rules = LineRules(batch.endpoint, models, batch.window, policy)
        reader = PieceReader(rules, known.output_tokens)
        try:
            async for chunk in self._parts.objects.stream(batch.input_key):
                # In a thread: a chunk takes tens of milliseconds, and other services share the loop.
                await self._store(staged, await asyncio.to_thread(reader.feed, chunk))
                if reader.full:
                    break
        except ObjectLost:
            message = "The input file could not be read back. Upload it again and create a new batch."
            lost = LineError(WHOLE_FILE, "input_file_not_found", message, "input_file_id")
            await self._store(staged, [Piece(bytearray(), (), (lost,))])
        else:
            await self._store(staged, await asyncio.to_thread(reader.finish))

    async def _store(self, staged: Staging, pieces: list[Piece]) -> None:
        while pieces:
            await self._store_piece(staged, pieces.pop(0))  # popped: it is freed as soon as it is stored

    async def _store_piece(self, staged: Staging, piece: Piece) -> None:
        self._errors += len(piece.errors)
        self._fatal = self._fatal or any(error.code in _FATAL for error in piece.errors)
        segment_id = None
        if piece.bodies and not self._doomed:
            segment_id = await self._write_segment(piece.bodies)
        await staged.add(piece.lines, piece.errors, segment_id)

    async def _write_segment(self, data: bytearray) -> int:
        key = ingest.segment_key(self._batch, len(self._keys))
        segment_id = await ingest.name_segment(self._parts.database, self._batch, key, len(data))
        self._keys.append(key)
        await self._parts.objects.put(key, data)
        return segment_id

    async def _write_errors(self, staged: Staging) -> int:
        key = ingest.errors_key(self._batch, self._batch.fence)
        self._keys.append(key)
        size = 0
        async with self._parts.objects.writer(key) as handle:
            async for page in staged.errors():
                data = "".join(f"{error}\n" for error in page).encode()
                size += len(data)
                await handle.write(data)
        return size


@asynccontextmanager
async def _kept(parts: Parts, batch: ValidatingBatch) -> AsyncIterator[None]:
    """Renew the lease while the block runs. A loss is noticed by the block's own fenced writes."""
    keeper = asyncio.create_task(_keep(parts, batch))
    try:
        yield
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper


async def _keep(parts: Parts, batch: ValidatingBatch) -> None:
    held = True
    while held:
        await asyncio.sleep(parts.policy.ingest_lease_seconds / 4)
        try:
            held = await ingest.renew(parts.database, batch, parts.policy)
        except (SQLAlchemyError, OSError) as error:
            log.warning("batch.renew_failed", batch=str(batch.id), error=type(error).__name__)
