"""How far a long command is: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

PAUSE = 30.0
"""Seconds between two plain lines."""


class Progress:
    """Shows a count with its rate and the time left; says nothing when there is nothing to do."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.terminal = sys.stderr.isatty()
        self.bar: Any = None
        self.begun = self.spoken = time.monotonic()
        self.initial: int | None = None
        self.first: float | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, done: int, total: int) -> None:
        """Say that `done` of `total` are finished."""
        if self.initial is None:
            self.initial, self.begun = done, time.monotonic()
        seconds = max(time.monotonic() - self.begun, 1e-9)
        text = f"{done}/{total}, {(done - self.initial) / seconds:.3g}/s"
        if self.terminal:
            self._draw(done, total, text)
        else:
            self._say(text)

    def fraction(self, done: float, text: str) -> None:
        """Say that this part of the work, between 0 and 1, is finished, and how it stands."""
        if self.terminal:
            self._draw(done, 1.0, text)
        else:
            self._say(f"{done:.0%}{self._left(done)}, {text}")

    def _say(self, text: str) -> None:
        """A plain line, unless the last one is not long ago."""
        if time.monotonic() - self.spoken > PAUSE:
            self.spoken = time.monotonic()
            print(f"{self.title}: {text}", file=sys.stderr, flush=True)

    def _left(self, done: float) -> str:
        """The minutes left at the pace so far."""
        if self.first is None:
            self.first, self.begun = done, time.monotonic()
        if done <= self.first:
            return ""
        left = (1 - done) * (time.monotonic() - self.begun) / (done - self.first)
        return f", {left / 60:.1f} minutes left"

    def _draw(self, done: float, total: float, text: str) -> None:
        from rich import progress
        from rich.console import Console

        if self.bar is None:
            self.bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.TextColumn("{task.fields[text]}"),
                progress.TimeRemainingColumn(elapsed_when_finished=True),
                console=Console(stderr=True),
                transient=True,
            )
            self.bar.start()
            self.bar.add_task(self.title, total=total, text="")
        self.bar.update(self.bar.task_ids[0], completed=done, text=text)
