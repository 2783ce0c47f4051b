"""Settings of one GPU worker, read from its environment by `python -m workers.gpu`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from db.settings import Settings, SettingsError
from lanes.lane import Lane

ENGINES = ("vllm", "simulated")


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    platform: Settings
    deployment: str  # the model's name as clients say it
    engine: str  # one of ENGINES
    model: str  # folder of the model; unused by the simulated engine
    lanes: tuple[Lane, ...]
    drain_seconds: float  # how long started requests may still run after SIGTERM
    simulated_speed: float  # how many times faster than its latency model the simulated engine runs
    simulated_echo: bool  # its answers repeat their questions
    simulated_drill: bool  # a prompt may kill it, to rehearse the death of an engine

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> WorkerSettings:
        """Read FAIRLANE_DEPLOYMENT, FAIRLANE_ENGINE, FAIRLANE_MODEL, FAIRLANE_DRAIN_SECONDS,
        and FAIRLANE_SIMULATED_SPEED, _ECHO and _DRILL for the simulated engine.

        Raises:
            SettingsError: one of them is missing or not understood.
        """
        deployment = environ.get("FAIRLANE_DEPLOYMENT", "")
        engine = environ.get("FAIRLANE_ENGINE", "vllm")
        model = environ.get("FAIRLANE_MODEL", "")
        if not deployment:
            raise SettingsError("FAIRLANE_DEPLOYMENT must name the deployment that this worker serves")
        if engine not in ENGINES:
            raise SettingsError(f"FAIRLANE_ENGINE is {engine!r}; it must be one of {', '.join(ENGINES)}")
        if engine == "vllm" and not model:
            raise SettingsError("FAIRLANE_MODEL must name the model's folder for the vllm engine")
        return cls(
            platform=Settings.from_environment(environ),
            deployment=deployment,
            engine=engine,
            model=model,
            lanes=(Lane.STANDARD, Lane.BULK),
            drain_seconds=_positive(environ, "FAIRLANE_DRAIN_SECONDS", 10.0),
            simulated_speed=_positive(environ, "FAIRLANE_SIMULATED_SPEED", 1.0),
            simulated_echo=environ.get("FAIRLANE_SIMULATED_ECHO") == "1",
            simulated_drill=environ.get("FAIRLANE_SIMULATED_DRILL") == "1",
        )


def _positive(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value <= 0:
        raise SettingsError(f"{name} is {text!r}; it must be a number above 0")
    return value
