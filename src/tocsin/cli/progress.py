"""The progress of a long command: a bar on a terminal, a line from time to time elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tocsin.cli.output import progress

#: Seconds between two lines.
EVERY = 30.0

#: The share of the work after which the remaining time can be estimated.
LEAST = 0.02

#: Called with how much is done, and what is being done.
Update = Callable[[float, str], None]


@contextlib.contextmanager
def track(total: float) -> Iterator[Update]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with progress(*columns) as bar:
        if bar is None:
            yield Lines(total).update
            return
        task = bar.add_task("", total=total)
        yield lambda done, what: bar.update(task, completed=done, description=what)


class Lines:
    """Writes to standard error, so that standard output holds only the result."""

    def __init__(self, total: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._clock = total, clock
        self._began = self._written = clock()

    def update(self, done: float, what: str) -> None:
        now = self._clock()
        if now - self._written < EVERY:
            return
        self._written, spent = now, now - self._began
        known = done >= LEAST * self._total
        left = f", about {span(spent * (self._total / done - 1))} left" if known else ""
        sys.stderr.write(f"{what}: {done / self._total:.0%} after {span(spent)}{left}\n")
        sys.stderr.flush()


def span(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 90 else f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
