"""The rules of `lanes.step` as vLLM's own scheduler carries them out, under random load and aborts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest

from lanes.lane import Lane
from lanes.step_values import StepKnobs
from tests.engines.bare_scheduler import BareEngine, Known, Step

pytestmark = pytest.mark.vllm
pytest.importorskip("vllm")

# On a `Known` machine that is too short for more than 64 tokens of bulk prompts.
KNOBS = StepKnobs(max_step_ms=60.0, bulk_prefill_tokens=64, max_withheld_steps=12, reserve_seats=1)
Make = Callable[..., BareEngine]


@pytest.fixture(params=[0, 1], ids=["synchronous", "asynchronous"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[BareEngine] = []

    def build(**settings: object) -> BareEngine:
        made.append(BareEngine(ahead=request.param, **settings))  # type: ignore[arg-type]  # passed through
        return made[-1]

    yield build
    for engine in made:
        engine.close()


def at_rest(engine: BareEngine) -> None:
    stats = engine.stats()
    assert [(lane.running, lane.withheld, lane.waiting, lane.kv_blocks) for lane in stats.lanes] == [
        (0,) * 4
    ] * 3
    assert stats.free_blocks == stats.total_blocks == engine.blocks
    assert engine.scheduler.max_num_active_reqs == stats.seats == engine.seats
    assert not engine.scheduler.running
    assert not engine.scheduler.requests


def keeps_the_rules(step: Step, knobs: StepKnobs) -> None:
    urgent, bulk = step.of(Lane.INTERACTIVE), step.tokens.keys() - step.of(Lane.INTERACTIVE)
    assert not (urgent & step.prefilled and bulk), "bulk beside an urgent prefill"
    assert sum(step.tokens[key] for key in bulk & step.prefilled) <= knobs.bulk_prefill_tokens
    assert max(step.withheld.values(), default=0) <= knobs.max_withheld_steps


@pytest.mark.parametrize("seed", range(6))
def test_random_load_on_few_seats_and_few_blocks(make: Make, seed: int) -> None:
    random = Random(seed)
    engine = make(knobs=KNOBS, blocks=random.choice([40, 60, 100]))
    alive: list[str] = []
    for _ in range(1500):
        if random.random() < 0.15:
            lane = random.choice([Lane.BULK, Lane.BULK, Lane.STANDARD])
            alive += [engine.add(lane, random.randint(2, 300), random.randint(1, 120)) for _ in range(3)]
        if random.random() < 0.02:
            alive += [
                engine.add(
                    Lane.INTERACTIVE,
                    random.randint(2, 200),
                    random.randint(1, 40),
                    same=random.random() < 0.5,
                )
                for _ in range(random.choice([1, 1, 3, 12]))
            ]
        if random.random() < 0.1 and alive:
            engine.abort(random.sample(alive, min(len(alive), random.randint(1, 4))))
        engine.step()
        keeps_the_rules(engine.steps[-1], KNOBS) if engine.steps else None
        assert len(engine.scheduler.running) <= engine.seats
    engine.drain()
    for step in engine.steps:
        keeps_the_rules(step, KNOBS)
    at_rest(engine)
    assert engine.stats().lanes[Lane.BULK].preemptions > 0


def test_an_arriving_p0_is_in_the_very_next_step_though_p2_holds_everything(make: Make) -> None:
    engine = make(knobs=KNOBS, blocks=40)
    for _ in range(20):
        engine.add(Lane.BULK, 40, 400)
    for _ in range(60):
        engine.step()
    for burst in (1, 3, 8):
        keys = [engine.add(Lane.INTERACTIVE, 60, 5) for _ in range(burst)]
        engine.step()
        fits = min(burst, 40 // 4)
        assert engine.steps[-1].of(Lane.INTERACTIVE) >= set(keys[:fits])
        for _ in range(12):
            engine.step()
    engine.drain()
    at_rest(engine)


def test_p2_goes_on_beside_p0_that_never_pauses(make: Make) -> None:
    engine = make(knobs=KNOBS)
    bulk = [engine.add(Lane.BULK, 20, 30) for _ in range(6)]
    for _ in range(600):
        engine.add(Lane.INTERACTIVE, 30, 1)
        engine.step()
    assert not engine.scheduler.requests.keys() & set(bulk), "P2 starved"
    engine.drain()
    at_rest(engine)


def test_knobs_are_in_force_in_the_next_step_and_echoed(make: Make) -> None:
    engine = make(knobs=KNOBS)
    for _ in range(8):
        engine.add(Lane.BULK, 100, 50)
    engine.step()
    assert sum(engine.steps[-1].tokens.values()) == 64
    engine.block.write_knobs(StepKnobs(version=2, bulk_prefill_tokens=150))
    engine.step()
    assert sum(engine.steps[-1].tokens.values()) in {150, 151}
    engine.step()
    engine.step()
    assert engine.stats().knobs_version == 2
    engine.drain()


def test_nothing_runs_while_vllm_is_paused(make: Make) -> None:
    from vllm.v1.core.sched.interface import PauseState  # noqa: PLC0415 (only where vLLM is installed)

    engine = make(knobs=KNOBS)
    running = [engine.add(Lane.BULK, 20, 10) for _ in range(3)]
    engine.step()
    engine.scheduler.set_pause_state(PauseState.PAUSED_NEW)
    late = [engine.add(Lane.INTERACTIVE, 20, 10), engine.add(Lane.BULK, 20, 10)]
    for _ in range(4):
        engine.step()
    assert set(engine.steps[-1].tokens) == set(running)
    engine.scheduler.set_pause_state(PauseState.PAUSED_ALL)
    assert engine.scheduler.schedule().num_scheduled_tokens == {}
    engine.scheduler.set_pause_state(PauseState.UNPAUSED)
    engine.step()
    assert late[0] in engine.steps[-1].tokens
    engine.drain()
    at_rest(engine)


def test_a_reset_of_the_prefix_cache_takes_every_running_request_along(make: Make) -> None:
    engine = make(knobs=StepKnobs(max_step_ms=0.1))  # so all bulk is withheld beside P0
    for _ in range(5):
        engine.add(Lane.BULK, 20, 30)
    engine.step()
    engine.add(Lane.INTERACTIVE, 20, 30)
    for _ in range(4):
        engine.step()
    assert engine.steps[-1].withheld
    while engine._flying:
        engine.scheduler.update_from_output(*engine._flying.popleft())
    assert engine.scheduler.reset_prefix_cache(reset_running_requests=True)
    assert engine.scheduler.running == []
    engine.drain()
    at_rest(engine)


def test_bulk_beside_p0_takes_turns(make: Make) -> None:
    engine = make(knobs=StepKnobs(max_step_ms=14.5, max_withheld_steps=50), seats=12)
    engine.scheduler._model = Known(weights=(10.0, 64.0, 0.0, 0.0))  # P0 and three of the four fit
    bulk = [engine.add(Lane.BULK, 20, 200) for _ in range(4)]
    for _ in range(4):
        engine.step()
    engine.add(Lane.INTERACTIVE, 20, 200)
    engine.step()
    began = len(engine.steps)
    for _ in range(100):
        engine.step()
    turns = [sum(key in step.tokens for step in engine.steps[began:]) for key in bulk]
    assert sum(turns) == 300
    assert max(turns) - min(turns) <= 1
    engine.drain()


def test_p0_gets_blocks_that_bulk_shares(make: Make) -> None:
    """Preempting one of two that share their blocks frees next to nothing, so both must go."""
    engine = make(knobs=replace(KNOBS, bulk_prefill_tokens=512, reserve_block_share=0.0), blocks=24)
    engine.add(Lane.BULK, 16 * 16, 100, same=True)
    engine.step()
    engine.step()
    engine.add(Lane.BULK, 16 * 16, 100, same=True)
    for _ in range(4):
        engine.step()
    assert engine.stats().of(Lane.BULK).running == 2
    assert engine.stats().free_blocks < 10
    key = engine.add(Lane.INTERACTIVE, 10 * 16 - 5, 5)
    engine.step()
    assert key in engine.steps[-1].tokens
    engine.drain()
    at_rest(engine)


def test_bulk_never_enters_the_reserve_only_to_be_thrown_out_again(make: Make) -> None:
    engine = make(knobs=replace(KNOBS, reserve_block_share=0.25, bulk_prefill_tokens=512), blocks=40)
    for _ in range(12):
        engine.add(Lane.BULK, 100, 8)  # seven blocks from beginning to end
    while engine.scheduler.requests:
        engine.step()
        assert engine.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() >= 10
    engine.drain()
    assert engine.stats().of(Lane.BULK).preemptions == 0
