"""Reads the traces of bench/data/traces (sources and licences in its README)."""

from __future__ import annotations

import csv
import gzip
import json
import tarfile
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Literal

TRACES = Path(__file__).parent / "data" / "traces"

_WINDOW_SECONDS = 600  # of ServeGen's rates
_LENGTHS_SECONDS = 21_600  # of its length distributions


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """`arrival` counts seconds from the first request. `blocks` names the 512-token blocks of the
    prompt, alike where prompts share them; empty where the trace does not tell."""

    arrival: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


def azure(kind: Literal["conv", "code"]) -> list[TraceRequest]:
    """An hour of Azure's traffic, in order of arrival."""
    requests = []
    begin: datetime | None = None
    with gzip.open(TRACES / f"azure_llm_2023_{kind}.csv.gz", "rt", encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            # seven digits of a second, and Python reads six
            at = datetime.fromisoformat(row["TIMESTAMP"][:26])
            begin = begin or at
            requests.append(
                TraceRequest(
                    (at - begin).total_seconds(), int(row["ContextTokens"]), int(row["GeneratedTokens"])
                )
            )
    return requests


def mooncake(kind: Literal["conversation", "synthetic"]) -> list[TraceRequest]:
    """Mooncake's traffic, in order of arrival, with the blocks that prompts share."""
    with gzip.open(TRACES / f"mooncake_{kind}_trace.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [
            TraceRequest(
                row["timestamp"] / 1000, row["input_length"], row["output_length"], tuple(row["hash_ids"])
            )
            for row in map(json.loads, lines)
        ]


class Lengths:
    """A distribution of token counts."""

    def __init__(self, shares: dict[int, float]) -> None:
        self._values = sorted(shares)
        self._below = list(accumulate(shares[value] for value in self._values))

    def at(self, draw: float) -> int:
        """The count at a number drawn from [0, 1)."""
        index = bisect_right(self._below, draw * self._below[-1])
        return self._values[min(index, len(self._values) - 1)]


@dataclass(frozen=True, slots=True)
class Client:
    """One client of ServeGen: requests a second by window of ten minutes, lengths by six hours."""

    number: int
    rates: tuple[float, ...]
    inputs: tuple[Lengths | None, ...]  # None: nothing was seen in those hours
    outputs: tuple[Lengths | None, ...]

    def lengths(self, at: float, draw: Callable[[], float]) -> tuple[int, int] | None:
        """Input and output tokens of a request at this second; None where nothing is known."""
        index = int(at // _LENGTHS_SECONDS)
        inputs, outputs = self.inputs[index], self.outputs[index]
        return None if inputs is None or outputs is None else (inputs.at(draw()), outputs.at(draw()))

    def rate(self, at: float) -> float:
        """Requests a second at this second."""
        return self.rates[int(at // _WINDOW_SECONDS)]


def servegen() -> Iterator[Client]:
    """The twenty clients, by their number."""
    with tarfile.open(TRACES / "servegen_m-small_20clients.tar.gz") as archive:
        names = {name: name.rsplit("/", 1)[-1].split("-") for name in archive.getnames()}
        numbers = sorted(int(parts[1]) for parts in names.values() if parts[-1] == "trace.csv")
        by_file = {tuple(parts): name for name, parts in names.items()}
        for number in numbers:
            rows = _text(archive, by_file["chunk", str(number), "trace.csv"]).splitlines()
            spans = json.loads(_text(archive, by_file["chunk", str(number), "dataset.json"]))
            ordered = [spans[key] for key in sorted(spans, key=int)]
            yield Client(
                number,
                tuple(float(row.split(",")[1]) for row in rows),
                tuple(_lengths(span["input_tokens"]) for span in ordered),
                tuple(_lengths(span["output_tokens"]) for span in ordered),
            )


def _text(archive: tarfile.TarFile, name: str) -> str:
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    return file.read().decode()


def _lengths(text: str) -> Lengths | None:
    """Distributions are written as Python prints a dict: "{50: 0.23, 51: 0.3}"."""
    pairs = (pair.split(":") for pair in text.strip("{} \n").split(",") if pair)
    shares = {int(value): float(share) for value, share in pairs}
    return Lengths(shares) if shares else None
