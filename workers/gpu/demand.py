"""Which lanes may have work, as one worker knows it, and what it served of each lately."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lanes.lane import Lane
from lanes.lately import Lately
from lanes.policy import Policy
from lanes.shares import LaneDemand

_SHARING = frozenset({Lane.STANDARD, Lane.BULK})  # the lanes that share by what they were served


class Demand:
    """What `lanes.shares` is asked with. Times are seconds of one monotonic clock, given by the caller.

    A lane is believed to have work until a claim comes back with less than it asked for; a doorbell
    or a poll makes all of them believed again.
    """

    def __init__(self, lanes: Iterable[Lane], now: float, policy: Policy) -> None:
        self._policy = policy
        self._lanes = frozenset(lanes)
        self._hungry: set[Lane] = set(lanes)
        self._since = dict.fromkeys(self._lanes, now)  # last seat, or last seen without work
        self._served = dict.fromkeys(self._lanes, Lately())
        self._counted_at = now

    def look_again(self) -> None:
        """There may be work in every lane."""
        self._hungry = set(self._lanes)

    @property
    def may_be_work(self) -> bool:
        return bool(self._hungry)

    def lanes(self, now: float) -> list[LaneDemand]:
        """The lanes that may have work."""
        return [
            LaneDemand(lane, now - self._since[lane], self._served[lane]) for lane in sorted(self._hungry)
        ]

    def emptied(self, lane: Lane, now: float) -> None:
        """A claim has shown that the lane has no more work."""
        self._hungry.discard(lane)
        self._since[lane] = now
        if lane in _SHARING:  # nothing is owed for the time in which the other was alone
            self._served = dict.fromkeys(self._lanes, Lately())

    def charge(self, lane: Lane, costs: Iterable[float], now: float) -> None:
        """Jobs of these expected costs got seats."""
        charged = list(costs)
        self._since[lane] = now
        if not self._hungry >= _SHARING:
            return
        seconds, self._counted_at = now - self._counted_at, now
        half_life = self._policy.share_half_life_seconds
        for other in _SHARING:
            served = charged if other is lane else []
            self._served[other] = self._served[other].after(seconds, sum(served), len(served), half_life)

    def settle(self, differences: Mapping[Lane, float]) -> None:
        """Jobs ended that used so much more, or less, than was charged."""
        for lane, cost in differences.items():
            served = self._served[lane]
            if served.jobs:  # else it was charged before the counting began anew
                self._served[lane] = Lately(max(0.0, served.cost + cost), served.jobs, served.seconds)
