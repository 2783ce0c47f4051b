"""The step-time model learns a machine, is not shaken by a stall, and follows a lasting change."""

from __future__ import annotations

import itertools
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.step_time import StepTimeModel
from lanes.step_values import StepLoad

TRUE = (12.0, 0.9, 0.7, 0.002)


def real_ms(load: StepLoad, slower: float = 1.0) -> float:
    base, decode, prefill, context = TRUE
    return slower * (
        base + decode * load.decodes + prefill * load.prefill_tokens + context * load.context_tokens
    )


def loads(seed: int) -> list[StepLoad]:
    random = Random(seed)
    return [
        StepLoad(n := random.randint(1, 128), random.choice([0, 0, 60, 200]), n * random.randint(50, 300))
        for _ in range(600)
    ]


def taught(model: StepTimeModel, seed: int, slower: float = 1.0) -> StepTimeModel:
    random = Random(seed)
    for load in loads(seed):
        model = model.learn(load, real_ms(load, slower) * random.uniform(0.9, 1.1))
    return model


def worst_error(model: StepTimeModel, slower: float = 1.0) -> float:
    return max(abs(model.expect(load) / real_ms(load, slower) - 1) for load in loads(99))


def test_it_learns_a_machine() -> None:
    assert worst_error(StepTimeModel()) > 0.5
    assert worst_error(taught(StepTimeModel(), 1)) < 0.1


def test_it_follows_a_machine_that_becomes_slower() -> None:
    model = taught(StepTimeModel(), 1)
    assert worst_error(model, slower=3.0) > 0.5
    assert worst_error(taught(model, 2, slower=3.0), slower=3.0) < 0.2


def test_a_stall_hardly_moves_it() -> None:
    model = taught(StepTimeModel(), 1)
    load = StepLoad(48, 0, 5000)
    stalled = model.learn(load, 20_000.0)
    assert abs(stalled.expect(load) / model.expect(load) - 1) < 0.1


def test_steps_that_are_all_alike_do_not_unlearn_the_others() -> None:
    model = taught(StepTimeModel(), 1)
    random = Random(3)
    alike = StepLoad(128, 0, 20_000)
    for _ in range(20_000):
        model = model.learn(alike, real_ms(alike) * random.uniform(0.9, 1.1))
    assert worst_error(model) < 0.35


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 1024), st.integers(0, 8192), st.integers(0, 10**6), st.floats(0.0, 1e5)),
        min_size=1,
        max_size=60,
    )
)
def test_no_coefficient_is_ever_negative(steps: list[tuple[int, int, int, float]]) -> None:
    model = StepTimeModel()
    for decodes, prefill, context, took in steps:
        model = model.learn(StepLoad(decodes, prefill, context), took)
        assert min(model.weights) >= 0.0
    for larger, smaller in itertools.pairwise([StepLoad(9, 9, 9), StepLoad(1, 1, 1)]):
        assert model.expect(larger) >= model.expect(smaller)
