"""The Hypothesis machine that chooses what happens next in the play, and looks after each step.

Few rules of many kinds each: Hypothesis leaves whole rules out of a run, and a run without claims
or without time says little. For the same reason some events bring the sweep that acts on them.
"""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lanes import failure
from tests.conformance.play import LARGE, LONGEST, OVER, SEATS, SMALL, WEIGHTS, Play, Stage
from tests.conformance.port import Sweep

PICK = st.integers(0, 10_000)
TENANT = st.sampled_from(sorted(WEIGHTS))
SIZES = st.lists(st.sampled_from([SMALL, LARGE]), min_size=1, max_size=8)

CLAIMS = ("claim", "claim", "claim", "unheard", "suspects")
REPORTS = ("complete", "complete", "fail", "no body", "give up", "release", "stopped", "stopped")
STALE = ("succeed", "fail", "retry", "release", "stopped")
MISHAPS = ("cancel", "cancel", "leave", "leave", "engine", "engine", *STALE, "stall", "stall")
MAINTENANCE = ("clock", "clock", "beat", "close", *Sweep)


class LaneMachine(RuleBasedStateMachine):
    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.play = Play(stage)

    @initialize(sizes=SIZES, window=st.integers(4, 9))
    def open(self, sizes: list[tuple[int, int]], window: int) -> None:
        self.play.open()
        self.begin_badly(self.play.stage.runs % 6)
        self.play.stage.runs += 1
        for tenant in WEIGHTS:
            self.play.enqueue(tenant, sizes, window, 0)

    def begin_badly(self, scene: int) -> None:
        """What chance alone seldom brings about: each run begins with another of these."""
        play, tenant = self.play, min(WEIGHTS)
        play.enqueue(tenant, [SMALL] * 3, LONGEST if scene >= 4 else 2, int(scene == 5))
        play.claim(0, 1, heard=True)
        match scene:
            case 0 | 1:  # past its deadline while it runs; its worker answers, or is gone
                play.clock(2, obey=False)
                play.sweep(Sweep.STOP)
                play.answer_stop(0) if scene == 0 else play.leave(0)
                play.sweep(Sweep.BURY)
            case 2:
                play.cancel(0)
                play.sweep(Sweep.STOP)
                play.answer_stop(0)
            case 3:  # it was alone in the engine that died
                play.engine_dies(0)
            case 4:
                play.fail(0, failure.ENGINE_ERROR)
                play.clock(LONGEST - 1)
                play.sweep(Sweep.WAKE)
            case _:
                play.clock(3)
                play.sweep(Sweep.AGE)

    @rule(tenant=TENANT, sizes=SIZES, window=st.integers(2, 9), ranks=st.integers(0, 2))
    def enqueue(self, tenant: UUID, sizes: list[tuple[int, int]], window: int, ranks: int) -> None:
        self.play.enqueue(tenant, sizes, window, ranks)

    @rule(pick=PICK, seats=st.integers(1, SEATS), kind=st.sampled_from(CLAIMS))
    def claim(self, pick: int, seats: int, kind: str) -> None:
        if kind == "suspects":
            self.play.claim_suspects(pick)
        else:
            self.play.claim(pick, seats, heard=kind == "claim")

    @rule(pick=PICK, spent=st.integers(0, LARGE[1] + OVER), kind=st.sampled_from(REPORTS))
    def report(self, pick: int, spent: int, kind: str) -> None:
        match kind:
            case "complete":
                self.play.complete(pick, spent)
            case "fail":
                self.play.fail(pick, failure.ENGINE_ERROR)
            case "no body":
                self.play.fail(pick, failure.BODY_LOST)
            case "give up":
                self.play.fail(pick, failure.EXPIRED)
            case "release":
                self.play.release(pick)
            case "stopped":
                self.play.answer_stop(pick)

    @rule(pick=PICK, kind=st.sampled_from(MISHAPS))
    def go_wrong(self, pick: int, kind: str) -> None:
        match kind:
            case "stall":
                self.play.stall(pick)
                self.play.clock(units=pick % 4)
                self.play.sweep(Sweep.RESCUE)
            case "leave":
                self.play.leave(pick)
                self.play.sweep(Sweep.BURY)
            case "engine":
                self.play.engine_dies(pick)
            case "cancel":
                self.play.cancel(pick)
                self.play.sweep(Sweep.CANCEL if pick % 2 else Sweep.STOP)
            case _:
                self.play.stale_report(pick, kind)

    @rule(pick=PICK, units=st.integers(1, 3), kind=st.sampled_from(MAINTENANCE))
    def pass_by(self, pick: int, units: int, kind: str) -> None:
        match kind:
            case "clock":
                self.play.clock(units, obey=pick % 2 == 0)
                self.play.sweep(Sweep.STOP)
            case "beat":
                self.play.heartbeat(pick)
            case "close":
                self.play.close_ended()
            case _:
                self.play.sweep(Sweep(kind))

    @invariant()
    def holds(self) -> None:
        self.play.holds()

    def teardown(self) -> None:
        try:
            self.play.end_everything()
        finally:
            self.play.stage.events.update(self.play.oracle.happened)
