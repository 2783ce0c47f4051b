"""The finaliser: when a batch's last job has ended, writes its two files and closes it."""

from __future__ import annotations

import time

import structlog

from db import finalise
from db.finalise import EndingBatch
from lanes.batch import BatchStatus
from workers.maintenance.batch_files import BatchFiles
from workers.maintenance.services import Parts

PAGE = 500

log = structlog.get_logger()


class Finalise:
    """Ends one batch a run. A crash leaves the batch to the next run, under a new fence."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_once(self) -> bool:
        """True when a batch was taken."""
        batch = await finalise.take_ending_batch(self._parts.database)
        if batch is None:
            return False
        began = time.monotonic()
        files = BatchFiles(self._parts.objects, batch)
        async with files:
            kept = await self._write(batch, files)
        if not kept or not await self._close(batch, files):
            await self._parts.objects.delete([files.output.key, files.errors.key])
            return True
        log.info(
            "batch.finalised",
            batch=str(batch.id),
            tenant=str(batch.tenant_id),
            lines=files.lines,
            seconds=round(time.monotonic() - began, 3),
        )
        return True

    async def _write(self, batch: EndingBatch, files: BatchFiles) -> bool:
        """Write every record; False when another process took the batch over."""
        renewed = time.monotonic()
        async for page in finalise.records(self._parts.database, batch, PAGE):
            await files.add(page)
            if time.monotonic() - renewed > finalise.LEASE_SECONDS / 4:
                renewed = time.monotonic()
                if not await finalise.renew(self._parts.database, batch):
                    return False
        return True

    async def _close(self, batch: EndingBatch, files: BatchFiles) -> bool:
        """The last write; False when it was not ours to make, and the files are worth nothing."""
        if files.lines != batch.total:
            # Never close a batch whose records do not add up; the lease lets it be looked at again.
            log.error("batch.recount", batch=str(batch.id), lines=files.lines, total=batch.total)
            return False
        if batch.cancelling:
            status = BatchStatus.CANCELLED
        else:
            # A line that only missed a deadline of its own is one of the errors of a completed batch.
            status = BatchStatus.EXPIRED if files.late else BatchStatus.COMPLETED
        unneeded = await finalise.close_batch(
            self._parts.database,
            batch,
            output=files.output.written(),
            errors=files.errors.written(),
            status=status,
            sums=files.sums,
        )
        if unneeded is None:
            log.warning("batch.taken", batch=str(batch.id))
            return False
        empty = [part.key for part in (files.output, files.errors) if part.lines == 0]
        await self._parts.objects.delete([*unneeded, *empty])
        return True
