"""Metrics of the API, and how its log names an error. Neither ever quotes what a client sent."""

from __future__ import annotations

import traceback

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """What `/metrics` shows. Labels are bounded: route templates, known methods, status classes."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "fairlane_http_requests_total",
            "Requests answered, or left by their client (4xx).",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "fairlane_http_request_seconds",
            "From the first byte of a request to the last of its answer.",
            ("route", "method"),
            buckets=_SECONDS,
            registry=self._registry,
        )

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        method = method if method in _METHODS else "OTHER"
        self._requests.labels(route, method, f"{status // 100}xx").inc()
        self._seconds.labels(route, method).observe(seconds)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)


def frames(error: BaseException) -> list[str]:
    """Where an error came from, without its text, which may quote what a client sent.

    Our own frames, and the last one whoever's it is.
    """
    passed = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in passed[:-1] if "site-packages" not in frame.filename]
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in (*ours, *passed[-1:])]
