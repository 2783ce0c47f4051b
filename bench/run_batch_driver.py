"""vLLM's own `run_batch` over several files with one engine, timed: the other side of p2_throughput.

Run as `python -m bench.run_batch_driver REPORT INPUT... -- VLLM_ARGUMENTS`. Each input is a batch
file; its answers go to INPUT.out. REPORT becomes a JSON list with, for each file, the seconds from
the first request that reached the serving layer to the complete output file. Everything between
these two moments is vLLM's own code, called as its command line calls it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from vllm.entrypoints.launchers import run_batch
from vllm.entrypoints.launchers.api_server.entry import build_async_engine_client
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.logger import configure_logging_from_args
from vllm.usage.usage_lib import UsageContext
from vllm.utils.argparse_utils import FlexibleArgumentParser


class FirstRequest:
    """Notes when the serving layer is first called; the call itself is passed on untouched."""

    def __init__(self) -> None:
        self._at: float | None = None
        original = OpenAIServingChat.create_chat_completion

        async def noted(*args: Any, **kwargs: Any) -> Any:
            if self._at is None:
                self._at = time.monotonic()
            return await original(*args, **kwargs)

        OpenAIServingChat.create_chat_completion = noted

    def take(self) -> float:
        """The moment of the first call since the last `take`."""
        at, self._at = self._at, None
        assert at is not None, "no request reached the serving layer"
        return at


async def main(inputs: list[str], vllm_arguments: list[str]) -> list[float]:
    parser = run_batch.make_arg_parser(FlexibleArgumentParser())
    args = parser.parse_args(["-i", "", "-o", "", *vllm_arguments])
    configure_logging_from_args(args)
    first = FirstRequest()
    seconds = []
    async with build_async_engine_client(args, usage_context=UsageContext.OPENAI_BATCH_RUNNER) as client:
        for path in inputs:
            args.input_file, args.output_file = path, f"{path}.out"
            await run_batch.run_batch(client, args)
            seconds.append(time.monotonic() - first.take())
    return seconds


if __name__ == "__main__":
    split = sys.argv.index("--")
    measured = asyncio.run(main(sys.argv[2:split], sys.argv[split + 1 :]))
    Path(sys.argv[1]).write_text(json.dumps(measured))
