"""Counters of one process for Prometheus. The labels are closed sets: no client can add one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from neuralsolver.solvers import Status

BUCKETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
ENDINGS = frozenset({*(status.name for status in Status), "TIME_LIMIT", "CANCELLED", "FAILED"})
_REQUEST = {"request", "equation", "constants", "input", "grid", "steps", "tolerance"}
_CONNECTION = {"host", "origin", "address", "connections", "queue", "body", "content-type"}
REASONS = frozenset(_REQUEST | _CONNECTION | {"time", "reading", "stopping", "server"})
"""Why something was refused; anything else counts as "other"."""


class Telemetry:
    """What has happened since the process began."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._solves = Counter("ens_solves", "Solves by ending", ["status"], registry=registry)
        self._refused = Counter("ens_refused", "Refusals by reason", ["field"], registry=registry)
        self._seconds = Histogram(
            "ens_solve_seconds", "Seconds of a solve", buckets=BUCKETS, registry=registry
        )
        self.running = Gauge("ens_solves_running", "Solves under way", registry=registry)
        self.waiting = Gauge("ens_solves_waiting", "Solves in the queue", registry=registry)
        self.streams = Gauge("ens_streams_open", "Open streams", registry=registry)
        self.frames_sent = Counter("ens_frames_sent", "Frames sent", registry=registry)
        self.frames_skipped = Counter("ens_frames_skipped", "Frames dropped", registry=registry)

    def solved(self, status: str, seconds: float) -> None:
        """Count a solve that has ended."""
        self._solves.labels(status if status in ENDINGS else "other").inc()
        self._seconds.observe(seconds)

    def refused(self, reason: str) -> None:
        """Count a refusal."""
        self._refused.labels(reason if reason in REASONS else "other").inc()
