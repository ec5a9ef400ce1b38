"""How far a long command is: a bar where somebody watches, a line now and then where nobody does."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tocsin.cli.output import progress

#: Seconds between two lines.
EVERY = 30.0

#: The share from which on what is left can be told from what it took.
LEAST = 0.02

#: How much is done, and what is being done.
Watch = Callable[[float, str], None]


@contextlib.contextmanager
def watching(total: float) -> Iterator[Watch]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with progress(*columns) as bar:
        if bar is None:
            yield Lines(total).tell
            return
        task = bar.add_task("", total=total)
        yield lambda done, what: bar.update(task, completed=done, description=what)


class Lines:
    """To standard error, so that what is printed stays what was asked for."""

    def __init__(self, total: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._clock = total, clock
        self._began = self._said = clock()

    def tell(self, done: float, what: str) -> None:
        now = self._clock()
        if now - self._said < EVERY:
            return
        self._said, spent = now, now - self._began
        known = done >= LEAST * self._total
        left = f", about {span(spent * (self._total / done - 1))} left" if known else ""
        sys.stderr.write(f"{what}: {done / self._total:.0%} after {span(spent)}{left}\n")
        sys.stderr.flush()


def span(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 90 else f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
