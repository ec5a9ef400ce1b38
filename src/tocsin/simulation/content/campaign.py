"""Many seeds of heads and edges, and what came of all of them."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from msgspec import Struct, field

from tocsin.simulation.campaign import LAST_LINES, each_seed, smaller
from tocsin.simulation.content.run import Outcome, attempt, run
from tocsin.simulation.network.trace import Trace
from tocsin.simulation.violation import Violation


class Summary(Struct):
    """``violations`` are (seed, what) of the first violation of each seed that had one."""

    runs: int = 0
    events: int = 0
    seconds: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    publications: int = 0
    deliveries: int = 0
    promised: int = 0
    violations: list[tuple[int, Violation]] = field(default_factory=list)

    def add(self, found: Outcome) -> None:
        self.runs += 1
        self.events += found.events
        self.seconds += found.seconds
        for kind in found.kinds:
            self.faults[kind] = self.faults.get(kind, 0) + 1
        self.publications += found.publications
        self.deliveries += found.deliveries
        self.promised += found.promised
        if found.violations:
            self.violations.append((found.seed, found.violations[0]))


def outcomes(first: int, runs: int, jobs: int = 1) -> Iterator[Outcome]:
    return each_seed(attempt, first, runs, jobs)


def shrink(found: Outcome) -> list[int]:
    """A smaller script that breaks the same rule."""
    invariant = found.violations[0].invariant

    def breaks(places: list[int]) -> bool:
        return any(each.invariant == invariant for each in attempt(found.seed, places).violations)

    return smaller(list(range(len(found.script))), breaks)


def last_lines(seed: int, only: list[int] | None = None) -> list[str]:
    try:
        return run(seed, only=only, trace=lambda clock: Trace(clock, True, last=LAST_LINES)).lines
    except Exception:
        return traceback.format_exc().splitlines()[-LAST_LINES:]


def command(seed: int, only: list[int] | None = None) -> str:
    """What replays it."""
    some = f" --only {','.join(map(str, only)) or 'none'}" if only is not None else ""
    return f"tocsin simulate content --seed {seed}{some} --trace"
