"""Many seeds, one after the other or side by side, and what came of all of them."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from msgspec import Struct, field

from tocsin.simulation.network.trace import Trace
from tocsin.simulation.run import Outcome, run
from tocsin.simulation.violation import Violation

Found = TypeVar("Found")

#: Seeds that a process takes at a time.
CHUNK = 8
#: Objects of each generation after which garbage is looked for while seeds are run.
GARBAGE = (50_000, 20, 20)
#: Lines of a trace that are shown with a violation.
LAST_LINES = 15


class Summary(Struct):
    """``violations`` are (seed, what) of the first violation of each seed that had one."""

    runs: int = 0
    events: int = 0
    seconds: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    moves: int = 0
    connects: int = 0
    notifications: int = 0
    gaps: int = 0
    duplicates: int = 0
    users: int = 0
    polls: int = 0
    revocations: int = 0
    violations: list[tuple[int, Violation]] = field(default_factory=list)

    def add(self, found: Outcome) -> None:
        self.runs += 1
        self.events += found.events
        self.seconds += found.seconds
        for kind, count in found.faults.items():
            self.faults[kind] = self.faults.get(kind, 0) + count
        self.moves += found.moves
        self.connects += found.connects
        self.notifications += found.notifications
        self.gaps += found.gaps
        self.duplicates += found.duplicates
        self.users += found.users
        self.polls += found.polls
        self.revocations += found.revocations
        if found.violations:
            self.violations.append((found.seed, found.violations[0]))


def attempt(seed: int, only: list[int] | None = None, peers: bool = False) -> Outcome:
    """A state machine that raises an error breaks the first rule of all."""
    try:
        return run(seed, only=only, peers=peers)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rpartition('/')[2]}:{place.lineno}"
        crash = Violation("nothing crashes", f"{type(error).__name__}: {error} ({where})")
        return Outcome(seed, [crash], 0, 0.0, {}, [], 0, 0, 0, 0, 0)


def outcomes(first: int, runs: int, jobs: int = 1, peers: bool = False) -> Iterator[Outcome]:
    return each_seed(partial(attempt, peers=peers), first, runs, jobs)


def each_seed(one: Callable[[int], Found], first: int, runs: int, jobs: int = 1) -> Iterator[Found]:
    """What comes of the seeds from ``first`` on, in their order."""
    seeds = range(first, first + runs)
    if jobs == 1 or runs <= CHUNK:
        usual = gc.get_threshold()
        collect_seldom()
        try:
            yield from map(one, seeds)
        finally:
            gc.set_threshold(*usual)
            gc.unfreeze()
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=collect_seldom) as pool:
        yield from pool.map(one, seeds, chunksize=CHUNK)


def collect_seldom() -> None:
    """A run makes little garbage until it ends, and looking for it all the time took a quarter of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def shrink(seed: int, invariant: str, peers: bool = False) -> list[int]:
    """A smaller script that breaks the same rule: places of faults without which it is not broken."""

    def breaks(places: list[int]) -> bool:
        return any(each.invariant == invariant for each in attempt(seed, places, peers).violations)

    return smaller(list(range(len(attempt(seed, peers=peers).script))), breaks)


def smaller(kept: list[int], breaks: Callable[[list[int]], bool]) -> list[int]:
    """Without the places that are not needed to break it."""
    shrunk = True
    while shrunk:
        shrunk = False
        for place in reversed(kept):
            fewer = [each for each in kept if each != place]
            if breaks(fewer):
                kept, shrunk = fewer, True
    return kept


def last_lines(seed: int, only: list[int] | None = None, peers: bool = False) -> list[str]:
    try:
        return run(seed, only=only, peers=peers, trace=lambda clock: Trace(clock, True, last=LAST_LINES)).lines
    except Exception:
        return traceback.format_exc().splitlines()[-LAST_LINES:]


def command(seed: int, only: list[int] | None = None, peers: bool = False) -> str:
    """What replays it."""
    some = f" --only {','.join(map(str, only)) or 'none'}" if only is not None else ""
    return f"tocsin simulate faults{' --peers' if peers else ''} --seed {seed}{some} --trace"
