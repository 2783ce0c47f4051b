"""What `lanes.step` must know before a step, read from vLLM's scheduler.

P0 is vLLM's priority 0; every other priority is bulk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vllm.v1.request import RequestStatus

from lanes.step_values import BulkRequest, StepView, UrgentRequest

_BLOCKED = (RequestStatus.WAITING_FOR_REMOTE_KVS, RequestStatus.WAITING_FOR_STREAMING_REQ)


def take_urgent(scheduler: Any) -> list[Any]:
    """Take the waiting P0 requests out of the queue, in order: at most as many as there are seats.

    The queue is a heap with P0 at its head, so however much bulk waits behind, it is not looked at.
    """
    queue = scheduler.waiting
    taken: list[Any] = []
    while queue and queue.peek_request().priority == 0 and len(taken) < scheduler.max_num_active_reqs:
        taken.append(queue.pop_request())
    return taken


def look(
    scheduler: Any,
    waiting_urgent: Sequence[Any],
    withheld_steps: Mapping[str, int],
    waiting_bulk_steps: int,
    *,
    bulk_may_enter: bool,
) -> StepView:
    """The view of a step; `waiting_urgent` was taken from the queue before."""
    kv = _Kv(scheduler)
    urgent: list[UrgentRequest] = []
    bulk: list[BulkRequest] = []
    urgent_blocks = 0
    for request in scheduler.running:
        if request.num_output_placeholders and _has_ended(request):
            continue
        key, computed = request.request_id, request.num_computed_tokens
        blocks = kv.held(key)
        lacking = request.num_tokens + request.num_output_placeholders - computed
        prefill = lacking if lacking > 1 else 0
        if request.priority == 0:
            urgent_blocks += blocks
            urgent.append(UrgentRequest(key, prefill, computed, kv.lacking(request, computed + lacking)))
        else:
            order = (request.priority, request.arrival_time)
            bulk.append(BulkRequest(key, prefill, computed, blocks, withheld_steps.get(key, 0), order))
    entering = [_entering(request, kv) for request in waiting_urgent if _can_start(request)]
    head = scheduler.waiting.peek_request() if bulk_may_enter and scheduler.waiting else None
    if head is not None and head.priority == 0:
        head = None  # more P0 waits than there are seats
    if kv.free < sum(request.blocks for request in urgent) + sum(request.blocks for request in entering):
        bulk = [request._replace(blocks=kv.own(request.key)) for request in bulk]
    return StepView(
        urgent=urgent,
        waiting_urgent=entering,
        bulk=bulk,
        waiting_bulk=0 if head is None else len(scheduler.waiting),
        waiting_bulk_steps=waiting_bulk_steps,
        next_bulk_blocks=0 if head is None else kv.entering(head),
        seats=scheduler.max_num_active_reqs
        - scheduler.num_waiting_for_streaming_input
        - (len(scheduler.running) - len(urgent) - len(bulk)),
        free_blocks=kv.free,
        total_blocks=kv.total,
        urgent_blocks=urgent_blocks,
    )


def _has_ended(request: Any) -> bool:
    """Whether all of its tokens are being computed, so that vLLM steps it no more (asynchronous only)."""
    computed: int = request.num_computed_tokens + 2 - request.num_output_placeholders
    end: int = request.num_prompt_tokens + request.max_tokens
    return computed >= end


def _can_start(request: Any) -> bool:
    """Whether vLLM would start this waiting request now, as `Scheduler.schedule` asks."""
    if request.status == RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR:
        # A grammar that failed counts as ready: vLLM ends the request when it comes to start it.
        return request.structured_output_request.grammar is not None
    in_flight = request.num_stale_output_tokens and not request.drop_stale_output
    return request.status not in _BLOCKED and not in_flight


def _entering(request: Any, kv: _Kv) -> UrgentRequest:
    return UrgentRequest(request.request_id, request.num_tokens, 0, kv.entering(request))


class _Kv:
    """The KV blocks of each request, over all groups of layers."""

    def __init__(self, scheduler: Any) -> None:
        self._manager = manager = scheduler.kv_cache_manager
        self._groups = [(m.req_to_blocks, m.block_size) for m in manager.coordinator.single_type_managers]
        self.free: int = manager.block_pool.get_num_free_blocks()
        self.total: int = manager.block_pool.num_gpu_blocks - 1  # one is vLLM's null block

    def held(self, key: str) -> int:
        blocks = 0
        for table, _ in self._groups:
            blocks += len(table.get(key, ()))
        return blocks

    def lacking(self, request: Any, tokens: int) -> int:
        """Blocks that it still needs in order to hold `tokens`."""
        key = request.request_id
        return sum(max(0, -(-tokens // size) - len(table.get(key, ()))) for table, size in self._groups)

    def entering(self, request: Any) -> int:
        """Blocks that a waiting request needs to start.

        Only where blocks are scarce those that it would share with running requests are looked up.
        """
        blocks = self.lacking(request, request.num_tokens + 1)
        if self.free < self.total // 4 + blocks:
            found = self._manager.get_computed_blocks(request)[0].blocks
            blocks -= sum(1 for group in found for block in group if block.ref_cnt > 0)
        return blocks

    def own(self, key: str) -> int:
        """Blocks that nobody else uses: what preempting the request would free."""
        return sum(1 for table, _ in self._groups for block in table.get(key, ()) if block.ref_cnt == 1)
