"""The engines under test, small."""

from __future__ import annotations

import importlib.util
import os

import pytest

from db.settings import demo_model_folder
from workers.engines.simulated import SimulatedEngine, SimulatedSettings
from workers.engines.simulated_latency import LatencyModel
from workers.engines.vllm.engine import VllmEngine
from workers.engines.vllm.settings import GIB, VllmSettings

MODEL = "demo"
SEATS = 4
CONTEXT = 2048


def simulated() -> SimulatedEngine:
    latency = LatencyModel(speed=20)
    return SimulatedEngine(SimulatedSettings(MODEL, SEATS, CONTEXT, latency, echo=True))


def vllm_settings() -> VllmSettings:
    """Small, on the demo model; the test is skipped where vLLM is not installed."""
    folder = demo_model_folder(os.environ)
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    if not folder.is_dir():
        pytest.fail(f"the demo model is not in {folder}; `make setup` puts it there")
    return VllmSettings(
        str(folder),
        MODEL,
        max_num_seqs=SEATS,
        max_model_len=CONTEXT,
        kv_cache_memory_bytes=GIB // 4,
        enforce_eager=True,
    )


def vllm() -> VllmEngine:
    return VllmEngine(vllm_settings())
