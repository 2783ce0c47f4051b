"""Filling a step that bulk may join: decodes and pieces of prompts, up to a time and a number of tokens."""

from __future__ import annotations

from math import inf

from lanes.step_time import StepTimeModel
from lanes.step_values import BulkRequest

# A smaller piece of a prompt costs a step's overhead for next to nothing.
_LEAST_CHUNK = 32


class Filling:
    """A step being filled. Once somebody was left out for want of time, nobody after it is taken either."""

    def __init__(self, model: StepTimeModel, ms: float, limit_ms: float, prefill_tokens: int) -> None:
        self._model = model
        self._limit_ms = limit_ms
        self._tokens = prefill_tokens  # that bulk may still prefill in this step
        self._least = min(_LEAST_CHUNK, prefill_tokens)
        self._full = False
        self.ms = ms
        self.decodes: list[str] = []
        self.prefills: list[str] = []
        self.withheld: list[BulkRequest] = []
        self.prefill_tokens = 0

    def offer(self, request: BulkRequest, *, forced: bool) -> None:
        """Take this running request in, or withhold it; `forced` sets the time aside, not the tokens."""
        if request.prefill_tokens:
            self._offer_prefill(request, forced=forced)
            return
        ms = self.ms + self._model.decode_ms + self._model.context_ms * request.context_tokens
        if forced or (not self._full and ms <= self._limit_ms):
            self.decodes.append(request.key)
            self.ms = ms
        else:
            self._full = True
            self.withheld.append(request)

    def _offer_prefill(self, request: BulkRequest, *, forced: bool) -> None:
        ms = self.ms + self._model.context_ms * request.context_tokens
        chunk = min(request.prefill_tokens, self._tokens if forced else self._tokens_until_limit(ms))
        if chunk < (1 if forced else min(self._least, request.prefill_tokens)):
            self.withheld.append(request)
            return
        self.prefills.append(request.key)
        self._spend(chunk, ms)
        if self._tokens and chunk < request.prefill_tokens:
            self._full = True  # it was the time that cut this prompt short

    def offer_new(self, count: int, *, forced: bool) -> int:
        """How many of `count` waiting requests may enter. What they will take is counted at its most."""
        if self.withheld and not forced:
            return 0
        tokens = self._tokens if forced else self._tokens_until_limit(self.ms)
        if not count or tokens < max(1, self._least):
            return 0
        self._spend(tokens, self.ms)
        return count

    def _spend(self, tokens: int, ms: float) -> None:
        self._tokens -= tokens
        self.prefill_tokens += tokens
        self.ms = ms + self._model.prefill_ms * tokens

    def _tokens_until_limit(self, ms: float) -> int:
        if self._full or ms > self._limit_ms:
            return 0
        if self._limit_ms == inf or not self._model.prefill_ms:
            return self._tokens
        return min(self._tokens, int((self._limit_ms - ms) / self._model.prefill_ms))
