"""Histograms of token counts whose buckets double: 1, 2, 3 to 4, 5 to 8, up to 2**20."""

from __future__ import annotations

from collections.abc import Mapping

LAST_BUCKET = 20


def bucket(tokens: int) -> int:
    """The bucket of a count: the least b with tokens <= 2**b; the last one takes what is longer."""
    return min(max(tokens - 1, 0).bit_length(), LAST_BUCKET)


def quantile(counts: Mapping[int, int], share: float) -> float:
    """The length that `share` of what was counted does not exceed, evenly spread inside a bucket.

    Args:
        counts: how many by bucket; not empty.
        share: in [0, 1].
    """
    wanted = share * sum(counts.values())
    below = 0
    for index in sorted(index for index, count in counts.items() if count):
        upper, lower = 1 << index, (1 << index) >> 1
        if below + counts[index] >= wanted:
            return lower + (upper - lower) * max(0.0, wanted - below) / counts[index]
        below += counts[index]
    raise ValueError("nothing was counted")
