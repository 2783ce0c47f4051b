"""AsyncLLM and vLLM's OpenAI serving classes in this process, without vLLM's HTTP server.

Templates, tools, reasoning, JSON schema and log probabilities are therefore vLLM's own, and the
same as `vllm serve` gives. This module imports vLLM: import it only once vLLM's environment is set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import vllm
from pydantic import BaseModel
from starlette.datastructures import State
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.api_server.app_state import init_app_state
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.usage.usage_lib import UsageContext
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError

from lanes.policy import Policy
from workers.engines.port import EngineDead, EngineRequest, Reply
from workers.engines.vllm.compatibility import check_version
from workers.engines.vllm.lane_control import lane_control
from workers.engines.vllm.processes import end, family
from workers.engines.vllm.replies import refused, reply_of, unknown_endpoint
from workers.engines.vllm.settings import VllmSettings, vllm_priority

# vLLM waits this long for its processes to end by themselves before it kills them.
STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Endpoint:
    request: type[BaseModel]
    create: Callable[[Any], Awaitable[Any]]


class Serving:
    """A loaded engine with its serving classes.

    The constructor blocks until the model is loaded and may run in any thread; `open` binds it to
    the running event loop, on which everything else must be called.
    """

    def __init__(self, settings: VllmSettings, policy: Policy) -> None:
        check_version(vllm.__version__)
        self._name = settings.served_name
        self._args = make_arg_parser(FlexibleArgumentParser()).parse_args(settings.arguments())
        config = AsyncEngineArgs.from_cli_args(self._args).create_engine_config(UsageContext.ENGINE_CONTEXT)
        self.lanes = lane_control(settings.lanes, config, policy)
        self.lanes.configure(config)
        try:
            self._client = AsyncLLM.from_vllm_config(config, disable_log_stats=self._args.disable_log_stats)
        except BaseException:
            self.lanes.close()
            raise
        self.lanes.watch(self._client)
        self._endpoints: dict[str, _Endpoint] = {}
        self.context_tokens: int = self._client.model_config.max_model_len

    async def open(self) -> None:
        """Build the serving classes over the engine."""
        state = State()
        await init_app_state(self._client, state, self._args, await self._client.get_supported_tasks())
        self._endpoints = {
            "/v1/chat/completions": _Endpoint(
                ChatCompletionRequest, state.openai_serving_chat.create_chat_completion
            ),
            "/v1/completions": _Endpoint(
                CompletionRequest, state.openai_serving_completion.create_completion
            ),
            "/v1/responses": _Endpoint(ResponsesRequest, state.openai_serving_responses.create_responses),
        }

    @property
    def dead(self) -> bool:
        return bool(self._client.errored)

    async def answer(self, request: EngineRequest) -> Reply:
        """Run one request to its end.

        Raises:
            EngineDead: the engine ended before the answer was complete.
        """
        endpoint = self._endpoints.get(request.endpoint)
        if endpoint is None:
            return unknown_endpoint(request.endpoint)
        async with self.lanes.inside(request.lane):
            return await self._answer(endpoint, request)

    async def _answer(self, endpoint: _Endpoint, request: EngineRequest) -> Reply:
        try:
            parsed = endpoint.request.model_validate(self._engine_body(request))
            return reply_of(await endpoint.create(parsed))
        except EngineDeadError as error:
            raise EngineDead("the vLLM engine process ended") from error
        except Exception as error:
            if self.dead:
                raise EngineDead("the vLLM engine process ended") from error
            return refused(error, request)

    def _engine_body(self, request: EngineRequest) -> dict[str, Any]:
        """The client's fields as they are, and the few that belong to us."""
        body = {
            **request.body,
            "model": self._name,
            "request_id": request.request_id,
            "stream": False,
            "priority": vllm_priority(request.lane),
        }
        if request.endpoint == "/v1/completions" and body.get("max_tokens") is None:
            # vLLM would stop after 16 tokens; it cuts this number down to what the prompt leaves.
            body["max_tokens"] = self.context_tokens
        if request.endpoint == "/v1/responses":
            # Background runs and stored responses are the platform's business, not the engine's.
            body |= {"request_id": f"resp_{request.request_id}", "background": False, "store": False}
        return body

    async def close(self) -> None:
        """Fail what is in flight, then stop the engine's processes."""
        # vLLM's shutdown says nothing to those who wait for output, and its output loop, if it
        # still runs when EngineCore ends, reports that as a failure.
        self._client.output_processor.propagate_error(EngineDeadError())
        if self._client.output_handler is not None:
            self._client.output_handler.cancel()
        await asyncio.to_thread(self._stop)
        self.lanes.close()

    def _stop(self) -> None:
        cores = self._client.engine_core.resources.engine_manager.processes
        processes = family(core.pid for core in cores)
        self._client.shutdown(timeout=STOP_SECONDS)
        # vLLM kills what does not end in time, but does not wait for it, nor look at its children.
        end(processes)
