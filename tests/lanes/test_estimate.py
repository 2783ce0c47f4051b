"""Estimates: quantiles of doubling histograms, conservative while young."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.estimate import expected_output, misses_deadline, output_tokens
from lanes.lengths import LAST_BUCKET, bucket, quantile
from lanes.policy import DEFAULT

LENGTHS = st.lists(st.integers(1, 1 << 20), min_size=1, max_size=200)


@given(st.integers(0, 1 << 24))
def test_a_bucket_holds_what_is_above_the_one_before(tokens: int) -> None:
    index = bucket(tokens)

    assert 0 <= index <= LAST_BUCKET
    assert index == LAST_BUCKET or tokens <= 1 << index
    assert index == 0 or tokens > 1 << (index - 1)


@given(LENGTHS, st.floats(0.01, 1))
def test_a_quantile_lies_in_the_bucket_of_the_true_one(lengths: list[int], share: float) -> None:
    found = quantile(Counter(bucket(length) for length in lengths), share)

    ordered = sorted(lengths)
    true = next(length for n, length in enumerate(ordered, 1) if n >= share * len(ordered))
    assert (1 << bucket(true)) >> 1 <= found <= 1 << bucket(true)


def test_an_empty_histogram_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="nothing"):
        quantile({3: 0}, 0.5)


@given(LENGTHS, st.none() | st.integers(1, 5000))
def test_a_prediction_is_never_above_the_limit(lengths: list[int], limit: int | None) -> None:
    seen = Counter(bucket(length) for length in lengths)

    predicted = output_tokens(limit, DEFAULT, seen)

    assert predicted >= 1
    assert limit is None or predicted <= limit


def test_the_guess_fades_as_samples_come() -> None:
    policy = replace(DEFAULT, output_guess_tokens=1000, young_samples=100, output_quantile=1.0)

    predicted = [
        expected_output({4: samples} if samples else {}, policy) for samples in (0, 25, 50, 100, 500)
    ]

    assert predicted == [1000, 754, 508, 16, 16]


def test_without_anything_seen_the_limit_or_the_guess_holds() -> None:
    guess = DEFAULT.output_guess_tokens
    assert output_tokens(None, DEFAULT) == guess
    assert output_tokens(guess - 1, DEFAULT) == guess - 1
    assert output_tokens(10 * guess, DEFAULT) == guess


def test_a_deadline_is_missed_when_the_work_takes_longer() -> None:
    # ten jobs of 100 at 50 a second: 20 s, believed with a margin
    margin = DEFAULT.risk_margin
    assert misses_deadline(20 * margin - 1, 10, 100.0, 50.0, DEFAULT)
    assert not misses_deadline(20 * margin + 1, 10, 100.0, 50.0, DEFAULT)
    assert not misses_deadline(1.0, 10, 100.0, 0.0, DEFAULT)  # no rate is known
    assert not misses_deadline(0.0, 10, 100.0, 50.0, DEFAULT)  # too late
