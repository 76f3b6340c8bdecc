"""Counters of one process, in the text format that Prometheus reads."""

from __future__ import annotations

import os
import resource
from collections import Counter
from pathlib import Path

BUCKETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Upper ends of the classes of seconds per solve."""


class Metrics:
    """What has happened since the process began."""

    def __init__(self) -> None:
        self.solves: Counter[str] = Counter()
        """By how they ended: a status, or "cancelled", "failed"."""
        self.refused: Counter[str] = Counter()
        """By the field that was refused."""
        self.seconds = [0] * (len(BUCKETS) + 1)
        self.seconds_sum = 0.0
        self.frames_sent = 0
        self.frames_skipped = 0
        self.connections = 0

    def solved(self, how: str, seconds: float) -> None:
        """Book a solve that has ended."""
        self.solves[how] += 1
        self.seconds_sum += seconds
        self.seconds[sum(seconds > bound for bound in BUCKETS)] += 1

    def text(self, running: int, waiting: int) -> str:
        """All numbers; `running` and `waiting` come from the queue."""
        lines: list[str] = []

        def add(name: str, kind: str, samples: dict[str, float]) -> None:
            lines.append(f"# TYPE {name} {kind}")
            lines.extend(f"{name}{labels} {value:g}" for labels, value in samples.items())

        add("ens_solves_total", "counter", _labelled("status", self.solves))
        add("ens_refused_total", "counter", _labelled("field", self.refused))
        add("ens_solves_running", "gauge", {"": running})
        add("ens_solves_waiting", "gauge", {"": waiting})
        add("ens_streams_open", "gauge", {"": self.connections})
        add("ens_frames_sent_total", "counter", {"": self.frames_sent})
        add("ens_frames_skipped_total", "counter", {"": self.frames_skipped})
        lines.append("# TYPE ens_solve_seconds histogram")
        below = 0
        for bound, count in zip((*BUCKETS, "+Inf"), self.seconds, strict=True):
            below += count
            lines.append(f'ens_solve_seconds_bucket{{le="{bound}"}} {below}')
        lines.append(f"ens_solve_seconds_sum {self.seconds_sum:g}")
        lines.append(f"ens_solve_seconds_count {below}")
        add("process_resident_memory_bytes", "gauge", {"": resident_bytes()})
        return "\n".join(lines) + "\n"


def _labelled(label: str, counts: Counter[str]) -> dict[str, float]:
    return {f'{{{label}="{name}"}}': count for name, count in sorted(counts.items())}


def resident_bytes() -> int:
    """Memory of this process: now where /proc tells it, its peak elsewhere."""
    statistics = Path("/proc/self/statm")
    if statistics.exists():
        return int(statistics.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
