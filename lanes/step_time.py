"""How long an engine step takes: a linear model, fitted while the engine runs.

Recursive least squares with forgetting (Ljung, System Identification, 2nd ed., section 11.2) over
four features; errors are weighed as shares of a step's length. Three things keep it usable as a
promise: coefficients never turn negative; an error far outside the usual (a stalled machine) is cut
before it is learnt; and nothing is forgotten while steps are too alike to teach anything new.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lanes.step_values import StepLoad

# Features are divided by these, so that all four are about one in a busy step.
_SCALES = (1.0, 64.0, 256.0, 16384.0)
# Slower than most machines: until steps have been measured, few bulk requests share with urgent ones.
_PRIOR_MS = (20.0, 128.0, 256.0, 16.0)
_PRIOR_VARIANCE = 1e4
_KEEP = 0.995  # weight of the past, per step: half is forgotten in 140 steps
_CUT = 3.0  # errors beyond this many usual errors are cut
_ERROR_KEEP = 0.95
_ERROR_FLOOR = 0.05  # the least that is taken for the usual error

_Row = tuple[float, float, float, float]


def _prior_spread() -> tuple[_Row, _Row, _Row, _Row]:
    v = _PRIOR_VARIANCE
    return (v, 0.0, 0.0, 0.0), (0.0, v, 0.0, 0.0), (0.0, 0.0, v, 0.0), (0.0, 0.0, 0.0, v)


@dataclass(frozen=True, slots=True)
class StepTimeModel:
    """ms = base + decode * decodes + prefill * prefill tokens + context * context tokens."""

    weights: _Row = _PRIOR_MS
    spread: tuple[_Row, _Row, _Row, _Row] = field(default_factory=_prior_spread)
    usual_error: float = 1.0  # as a share of the expected length
    steps: int = 0  # learnt from

    @property
    def base_ms(self) -> float:
        return self.weights[0]

    @property
    def decode_ms(self) -> float:
        """Of one decoding request, its context apart."""
        return self.weights[1] / _SCALES[1]

    @property
    def prefill_ms(self) -> float:
        """Of one prompt token."""
        return self.weights[2] / _SCALES[2]

    @property
    def context_ms(self) -> float:
        """Of reading the KV of one token."""
        return self.weights[3] / _SCALES[3]

    def expect(self, load: StepLoad) -> float:
        """The expected length of a step, in milliseconds."""
        return (
            self.base_ms
            + self.decode_ms * load.decodes
            + self.prefill_ms * load.prefill_tokens
            + self.context_ms * load.context_tokens
        )

    def learn(self, load: StepLoad, took_ms: float) -> StepTimeModel:
        """The model after one more measured step."""
        expected = self.expect(load)
        share = 1.0 / max(expected, 1.0)  # errors count as shares of the length: short steps matter too
        x = [share * value / scale for value, scale in zip((1.0, *load), _SCALES, strict=True)]
        limit = _CUT * max(self.usual_error, _ERROR_FLOOR)
        error = min(max(share * (took_ms - expected), -limit), limit)
        px = [sum(p * f for p, f in zip(row, x, strict=True)) for row in self.spread]
        gain = [p / (_KEEP + sum(f * q for f, q in zip(x, px, strict=True))) for p in px]
        rows = [
            [p - g * q for p, q in zip(r, px, strict=True)] for r, g in zip(self.spread, gain, strict=True)
        ]
        if sum(rows[i][i] for i in range(4)) < _KEEP * 4 * _PRIOR_VARIANCE:
            rows = [[p / _KEEP for p in row] for row in rows]
        a, b, c, d = (max(0.0, w + g * error) for w, g in zip(self.weights, gain, strict=True))
        usual = _ERROR_KEEP * self.usual_error + (1 - _ERROR_KEEP) * abs(error)
        return StepTimeModel((a, b, c, d), _rows(rows), usual, self.steps + 1)


def _rows(rows: list[list[float]]) -> tuple[_Row, _Row, _Row, _Row]:
    """The same, symmetric to the last bit: rounding errors would otherwise add up."""
    (a, b, c, d), (_, f, g, h), (_, _, k, m), (_, _, _, p) = rows
    return (a, b, c, d), (b, f, g, h), (c, g, k, m), (d, h, m, p)
