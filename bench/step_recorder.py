"""Schedulers that write down every step that they plan: when it ran and what it carried.

Named as `scheduler_cls` instead of the class that they extend, which the environment names:
`bench.recording` names both variables. Every step becomes one line, a JSON list in the order of
the fields of `bench.steps.Step`.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from pathlib import Path
from typing import Any

from vllm.utils.import_utils import resolve_obj_by_qualname

from bench.recording import BASE, FILE

_base: Any = resolve_obj_by_qualname(os.environ[BASE])


class RecordedScheduler(_base):  # type: ignore[misc]  # which class it is, only the environment knows
    """The scheduler under test and nothing else, but for a line a step."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._steps = Path(os.environ[FILE]).open("a", buffering=1)  # noqa: SIM115 - ends with the process
        self._begun: deque[tuple[float, list[int]]] = deque()

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        begin = time.monotonic()
        output = super().schedule(*args, **kwargs)
        self._begun.append((begin, self._carried(output.num_scheduled_tokens)))
        return output

    def update_from_output(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().update_from_output(*args, **kwargs)
        begin, carried = self._begun.popleft()
        if carried[0] or carried[1] or carried[4] or carried[5]:
            self._steps.write(json.dumps([begin, time.monotonic(), *carried]) + "\n")
        return outputs

    def _carried(self, scheduled: dict[str, int]) -> list[int]:
        """The fields of a Step after its times; the requests' own counts have advanced already."""
        p0, p2 = [0, 0, 0, 0], [0, 0, 0, 0]
        for key, tokens in scheduled.items():
            request = self.requests[key]
            lane = p2 if request.priority else p0
            behind = request.num_tokens - (request.num_computed_tokens - tokens)
            lane[0] += behind == 1
            lane[1] += tokens if behind > 1 else 0
            lane[2] += request.num_computed_tokens
            lane[3] += behind <= tokens
        return [*p0, *p2, len(self.running)]
