"""What a bench found: the numbers that have a bar, how many samples stand behind them, their spread."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bar:
    """A number to beat and the one to hope for; more is better unless `less_is_better`."""

    bar: float
    stretch: float
    less_is_better: bool = False

    def met_by(self, value: float) -> bool:
        return value <= self.bar if self.less_is_better else value >= self.bar


@dataclass(frozen=True, slots=True)
class Result:
    """`figures` are the keys of DESIGN section 7; `spread` has what `spread_of` gives for each series."""

    bench: str
    figures: dict[str, float]
    spread: dict[str, dict[str, float]]
    about: dict[str, Any]

    def as_json(self, facts: dict[str, Any]) -> str:
        """One line: the figures first, then what is needed to judge them."""
        content = {
            "bench": self.bench,
            **self.figures,
            "spread": self.spread,
            "facts": {**facts, **self.about},
        }
        return json.dumps(content)


def spread_of(values: Sequence[float]) -> dict[str, float]:
    """Count, least, median and greatest of a series."""
    ordered = sorted(values)
    return {
        "n": len(ordered),
        "min": round(ordered[0], 3),
        "median": round(statistics.median(ordered), 3),
        "max": round(ordered[-1], 3),
    }
