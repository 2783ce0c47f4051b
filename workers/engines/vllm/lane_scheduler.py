"""vLLM's scheduler with lanes: `lanes.step` decides each step, vLLM carries it out.

For the one step, bulk that is left out is taken from `running` (its seats stay taken, as the limit
on running requests is lowered) and one lane's queue only is shown as `waiting`. Everything is put
back before `schedule` returns, so that vLLM's other methods (abort, stop, preempt, reset) always
see every request where they expect it. vLLM's model runner accepts running requests that a step
leaves out; their KV stays.

Loaded by vLLM in its EngineCore process, by the names of the two classes at the end.
"""

from __future__ import annotations

import time
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.request_queue import PriorityRequestQueue
from vllm.v1.core.sched.scheduler import Scheduler

from lanes.step import plan_step
from lanes.step_time import StepTimeModel
from lanes.step_values import StepPlan
from workers.engines.vllm.compatibility import check_scheduler
from workers.engines.vllm.control_block import ControlBlock
from workers.engines.vllm.lane_counts import CountedStep, LaneCounts
from workers.engines.vllm.scheduler_view import look, take_urgent
from workers.engines.vllm.step_clock import StepClock


class LaneScheduler(Scheduler):  # type: ignore[misc]  # vLLM is not followed by the type checker
    """For engines that schedule synchronously."""

    # vLLM's, used and changed below
    running: list[Any]
    waiting: Any
    max_num_active_reqs: int
    max_num_scheduled_tokens: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_scheduler(self)
        self._block = ControlBlock.attach(self.vllm_config.additional_config)
        self._model = StepTimeModel()
        self._clock: StepClock[CountedStep] = StepClock()
        self._counts = LaneCounts()
        self._knobs_version = 0
        self._withheld_steps: dict[str, int] = {}
        self._waiting_bulk_steps = 0

    def schedule(self, throttle_prefills: bool = False) -> Any:
        if self._pause_state == PauseState.PAUSED_ALL:
            return super().schedule(throttle_prefills)
        began = time.monotonic()
        knobs = self._block.knobs()
        # While new requests are to stay out, none may be counted on either.
        may_enter = self._pause_state == PauseState.UNPAUSED
        urgent = take_urgent(self) if may_enter else []
        view = look(
            self,
            urgent,
            self._withheld_steps,
            self._waiting_bulk_steps,
            bulk_may_enter=may_enter,
        )
        plan = plan_step(view, knobs, self._model)
        output = self._carry_out(plan, urgent, throttle_prefills)
        waits = view.waiting_bulk > 0 and plan.admit_bulk == 0
        self._waiting_bulk_steps = self._waiting_bulk_steps + 1 if waits else 0
        self._knobs_version = knobs.version
        if output.num_scheduled_tokens:
            self._clock.began(output, began, self._counts.began(output.num_scheduled_tokens, self.requests))
        return output

    def _carry_out(self, plan: StepPlan, urgent: list[Any], throttle_prefills: bool) -> Any:
        """One step of vLLM's as planned; `urgent` are the waiting P0 requests, taken from the queue."""
        running = {request.request_id: request for request in self.running}
        for key in plan.preempt:
            self._preempt_request(running.pop(key), time.monotonic())
        stepped = [running.pop(key) for key in plan.step]
        withheld = [running.pop(key) for key in plan.withhold]
        waiting, seats, tokens = self.waiting, self.max_num_active_reqs, self.max_num_scheduled_tokens
        if not plan.admit_bulk:
            self.waiting = PriorityRequestQueue()
            if plan.admit_urgent:
                self.waiting.prepend_requests(urgent)
                urgent = []
        self.running = [*stepped, *running.values()]  # the latter only wait for their last output
        self.max_num_active_reqs = (
            len(self.running) + self.num_waiting_for_streaming_input + plan.admit_urgent + plan.admit_bulk
        )
        if plan.token_limit is not None:
            self.max_num_scheduled_tokens = min(tokens, plan.token_limit)
        try:
            output = super().schedule(throttle_prefills)
        finally:
            if self.waiting is not waiting:
                waiting.prepend_requests(self.waiting)
            waiting.prepend_requests(urgent)
            self.running = [*withheld, *self.running]
            self.waiting, self.max_num_active_reqs, self.max_num_scheduled_tokens = waiting, seats, tokens
        self._withheld_steps = {r.request_id: self._withheld_steps.get(r.request_id, 0) + 1 for r in withheld}
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        step = self._clock.ended(scheduler_output, time.monotonic())
        if step is not None:
            counted, took_ms = step
            self._model = self._model.learn(counted.load, took_ms)
            self._counts.ended(counted, took_ms)
        self._block.write_stats(self._counts.stats(self, self._withheld_steps, self._knobs_version))
        return outputs

    def add_request(self, request: Any) -> None:
        known = len(self.requests)
        super().add_request(request)
        self._counts.entered(request.priority, len(self.requests) - known)

    def _free_blocks(self, request: Any) -> None:
        super()._free_blocks(request)
        self._counts.entered(request.priority, -1)

    def _preempt_request(self, request: Any, *args: Any, **kwargs: Any) -> None:
        self._counts.preempted(request.priority)
        super()._preempt_request(request, *args, **kwargs)

    def shutdown(self) -> None:
        super().shutdown()
        self._block.close()


class AsyncLaneScheduler(LaneScheduler, AsyncScheduler):  # type: ignore[misc]  # as above
    """For engines that schedule the next step while one runs: `super()` above is then AsyncScheduler."""
