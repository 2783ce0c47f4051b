"""What the lane scheduler cannot serve is told at start-up, and gets the cap instead."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lanes.policy import DEFAULT
from workers.engines.vllm.compatibility import check_scheduler, check_version, refusals
from workers.engines.vllm.lane_control import lane_control


def config() -> Any:
    return SimpleNamespace(
        parallel_config=SimpleNamespace(
            pipeline_parallel_size=1,
            data_parallel_size=1,
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
        ),
        scheduler_config=SimpleNamespace(
            scheduler_cls=None, policy="priority", max_num_seqs=8, async_scheduling=False
        ),
        speculative_config=None,
        kv_transfer_config=None,
        ec_transfer_config=None,
        additional_config={},
    )


CHANGES: dict[str, Callable[[Any], None]] = {
    "Pipeline parallelism": lambda c: setattr(c.parallel_config, "pipeline_parallel_size", 2),
    "Data parallelism": lambda c: setattr(c.parallel_config, "data_parallel_size", 2),
    "Context parallelism": lambda c: setattr(c.parallel_config, "decode_context_parallel_size", 2),
    "Speculative decoding": lambda c: setattr(c, "speculative_config", object()),
    "KV connectors": lambda c: setattr(c, "kv_transfer_config", object()),
    "Another scheduler class": lambda c: setattr(c.scheduler_config, "scheduler_cls", "a.B"),
    "scheduling policy": lambda c: setattr(c.scheduler_config, "policy", "fcfs"),
    "additional_config": lambda c: setattr(c, "additional_config", {"a": 1}),
}


@pytest.mark.parametrize("words", CHANGES)
def test_a_configuration_is_refused_in_one_sentence_and_served_by_the_cap(
    words: str, caplog: pytest.LogCaptureFixture
) -> None:
    refused = config()
    CHANGES[words](refused)
    (sentence,) = refusals(refused)
    assert words in sentence
    control = lane_control("subclass", refused, DEFAULT)
    assert control.kind == "cap"
    assert sentence in caplog.text


@pytest.mark.parametrize(("ahead", "name"), [(False, ".LaneScheduler"), (True, ".AsyncLaneScheduler")])
def test_the_scheduler_class_follows_the_resolved_asynchrony(ahead: bool, name: str) -> None:
    served = config()
    served.scheduler_config.async_scheduling = ahead
    control = lane_control("subclass", served, DEFAULT)
    control.configure(served)
    assert served.scheduler_config.scheduler_cls.endswith(name)
    control.close()


def test_the_cap_can_be_asked_for() -> None:
    assert lane_control("cap", config(), DEFAULT).kind == "cap"


def test_another_version_of_vllm_is_refused() -> None:
    check_version("0.32.1")
    with pytest.raises(RuntimeError, match=r"vLLM 0\.33\.0 is installed"):
        check_version("0.33.0")


def test_a_scheduler_without_what_the_lanes_need_is_refused() -> None:
    with pytest.raises(RuntimeError, match="lacks schedule"):
        check_scheduler(SimpleNamespace(running=[]))


@pytest.mark.vllm
def test_the_checks_read_what_vllm_really_has() -> None:
    """A misspelt field would refuse nothing, or everything."""
    pytest.importorskip("vllm")
    from tests.engines.bare_scheduler import vllm_config  # noqa: PLC0415 (only where vLLM is installed)

    real = vllm_config()
    real.additional_config = {}
    assert refusals(real) == []
