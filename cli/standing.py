"""A batch as the command line tells it: how it stands, how it ended, and the exit code for that."""

from __future__ import annotations

from openai.types import Batch

from cli.exits import BAD_INPUT, FAILED, OK
from cli.pace import Pace, duration
from lanes.batch import BatchStatus


def status_of(batch: Batch) -> BatchStatus:
    return BatchStatus(batch.status)


def has_ended(batch: Batch) -> bool:
    return status_of(batch).is_terminal


def exit_code(batch: Batch) -> int:
    """0 when every line succeeded, 2 when the file was refused, else 1. The batch has ended."""
    if status_of(batch) is BatchStatus.FAILED:
        return BAD_INPUT
    return OK if status_of(batch) is BatchStatus.COMPLETED and counts(batch)[1] == 0 else FAILED


def counts(batch: Batch) -> tuple[int, int, int]:
    """Lines that succeeded, that failed, and all lines (0 while they are not known)."""
    found = batch.request_counts
    return (0, 0, 0) if found is None else (found.completed, found.failed, found.total)


def output_tokens(batch: Batch) -> int:
    return 0 if batch.usage is None else batch.usage.output_tokens


def errors_total(batch: Batch) -> int:
    """How many lines were refused, also where the batch object lists only the first of them."""
    listed = batch.errors.data if batch.errors and batch.errors.data else []
    return int((batch.model_extra or {}).get("errors_total") or len(listed))


def errors_file_id(batch: Batch) -> str | None:
    """The file that lists every refused line of a batch whose file was refused."""
    found = (batch.model_extra or {}).get("errors_file_id")
    return str(found) if found else None


def standing(batch: Batch, pace: Pace) -> str:
    """What is done and how fast, in one line."""
    succeeded, failed, total = counts(batch)
    if not total:
        return "the lines are being checked" if status_of(batch) is BatchStatus.VALIDATING else ""
    said = [f"{succeeded + failed} of {total} lines"]
    if failed:
        said.append(f"{failed} failed")
    if pace.lines_per_s is not None:
        said.append(f"{pace.lines_per_s:.1f} lines/s")
    if pace.tokens_per_s is not None:
        said.append(f"{pace.tokens_per_s:.0f} tokens/s")
    left_s = pace.remaining_s(total)
    if left_s and status_of(batch) is BatchStatus.IN_PROGRESS:
        said.append(f"about {duration(left_s)} left")
    return ", ".join(said)


def summary(batch: Batch) -> str:
    """How a batch ended, and the command to go on with."""
    if status_of(batch) is BatchStatus.FAILED:
        return (
            f"{batch.id} failed: {errors_total(batch)} bad lines, so none was run; "
            f"`fairlane batch errors {batch.id}` lists them, --skip-bad runs the good ones"
        )
    succeeded, failed, total = counts(batch)
    said = [f"{batch.id} {batch.status}: {succeeded} of {total} lines succeeded", f"{failed} failed"]
    if output_tokens(batch):
        said.append(f"{output_tokens(batch)} tokens generated")
    ended = batch.completed_at or batch.expired_at or batch.cancelled_at
    if ended is not None:
        said.append(duration(ended - batch.created_at))
    commands = []
    if batch.output_file_id:
        commands.append(f"`fairlane batch results {batch.id}`")
    if batch.error_file_id:
        commands.append(f"`fairlane batch errors {batch.id}`")
    return ", ".join(said) + (f"; see {' and '.join(commands)}" if commands else "")
