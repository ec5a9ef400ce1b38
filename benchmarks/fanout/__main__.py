"""Thousand deliveries per CPU second of the server, message by message and in bursts, from 1k to 10k subscribers.

The servers of a case hold their connections at the same time and take turns, so that what disturbs hits all alike.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from benchmarks import harness
from benchmarks.fanout import processes, servers
from benchmarks.fanout.cases import CASES, PAYLOAD, Case
from benchmarks.fanout.counter import Counter
from benchmarks.fanout.server import Server
from benchmarks.harness import Table, median

#: Messages published at once, and which server is the limit of it.
MODES: dict[int, type[Server]] = {1: servers.Limit, 16: servers.CoalescedLimit}


TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Effort:
    """How long is measured: rounds, and CPU seconds of the server in each; wall-clock time has a bound too."""

    rounds: int
    cpu: float
    wall_factor: float = 6.0


@dataclass
class Figures:
    """What was measured of one server in one case."""

    #: By messages at once: thousand deliveries a CPU second, one figure a round.
    rates: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    #: By messages at once: ms from the publication until the last subscriber has all of it.
    last: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    #: Bytes a connection.
    idle: float = 0.0
    note: str = ""


def run(full: bool) -> list[Table]:
    effort = Effort(15, 0.4) if full else Effort(7, 0.3)
    # Publishing is as little the server's work as counting.
    os.sched_setaffinity(0, {processes.COUNTER_CORE})
    found = measure(servers.ALL, CASES, effort)
    return [*(rates(found, size, effort) for size in MODES), idle(found), latency(found)]


Found = dict[str, dict[str, Figures]]


def measure(kinds: Sequence[type[Server]], cases: Sequence[Case], effort: Effort) -> Found:
    """By case and server."""
    processes.allow_files()
    return {case.name: measure_case(kinds, case, effort) for case in cases}


def measure_case(kinds: Sequence[type[Server]], case: Case, effort: Effort) -> dict[str, Figures]:
    figures = {kind.name: Figures() for kind in kinds}
    order = random.Random(case.seed)
    with ExitStack() as stack:
        runs = []
        for kind in kinds:
            harness.progress(f"{case.name}: {kind.name} connects")
            runs.append(stack.enter_context(connected(kind(), case, figures[kind.name])))
        for number in range(effort.rounds):
            harness.progress(f"{case.name}: round {number + 1} of {effort.rounds}")
            for size in MODES:
                # A server that comes after itself finds the caches warm: that must not always be the same one.
                for each in order.sample(runs, len(runs)):
                    each.burst_until(size, effort)
        for each in runs:
            each.check()
    return figures


@contextmanager
def connected(server: Server, case: Case, figures: Figures) -> Iterator[Run]:
    with server:
        figures.note = server.note
        before = server.resident()
        openings = [server.opening(number, topics) for number, topics in enumerate(case.subscriptions)]
        with Counter(server.endpoint, openings, processes.COUNTER_CORE) as counter:
            figures.idle = (server.resident() - before) / case.subscribers
            each = Run(server, counter, case, figures)
            for size in MODES:
                each.burst(size)
            yield each


class Run:
    """A server with all its subscribers connected."""

    def __init__(self, server: Server, counter: Counter, case: Case, figures: Figures):
        self._server, self._counter, self._case, self._figures = server, counter, case, figures
        self._bursts = {size: case.bursts(size) for size in MODES}
        self._delivered = 0

    def burst(self, size: int) -> tuple[int, float]:
        """Publishes once and waits until all subscribers have it: the number of deliveries, ms until the last."""
        topics = next(self._bursts[size])
        deliveries = self._case.deliveries(topics)
        self._counter.expect(deliveries)
        published = time.monotonic_ns()
        self._server.publish(topics)
        count = self._counter.met()
        self._delivered += deliveries
        return deliveries, (count.last - published) / 1e6

    def burst_until(self, size: int, effort: Effort) -> None:
        """One round."""
        self.burst(1)
        delivered, times = 0, []
        looked = time.monotonic()
        end = looked + effort.cpu * effort.wall_factor
        before = spent = self._server.cpu()
        while spent - before < effort.cpu and looked < end:
            deliveries, took = self.burst(size)
            delivered += deliveries
            times.append(took)
            # The kernel's clock does not tick more often.
            if (now := time.monotonic()) - looked > TICK:
                looked, spent = now, self._server.cpu()
        self._figures.rates[size].append(delivered / max(spent - before, TICK) / 1e3)
        self._figures.last[size].append(median(times))

    def check(self) -> None:
        """Ends the server and checks that no subscriber got a message twice, or one of another topic."""
        self._server.stop()
        got = self._counter.drained().deliveries
        if got != self._delivered:
            raise RuntimeError(f"{self._server.name} delivered {got:,} instead of {self._delivered:,} ({self._case})")


# -- tables ------------------------------------------------------------------------------------------------------------


def names(found: Found) -> list[str]:
    return list(next(iter(found.values())))


def rates(found: Found, size: int, effort: Effort) -> Table:
    limit = MODES[size].name
    how = "one message at a time" if size == 1 else f"bursts of {size}"
    table = Table(
        f"Fan-out, {how}: thousand deliveries per CPU second of the server",
        ["server", *(word for case in found for word in (case, "of the limit"))],
    )
    for name in names(found):
        cells: list[object] = []
        for figures in found.values():
            own, best = figures[name].rates[size], figures[limit].rates[size]
            # The ratio of each round, not that of the medians: what slows the machine down slows both.
            cells += [median(own), f"{median(a / b for a, b in zip(own, best, strict=True)):.2f}×"]
        table.add(name, *cells)
    table.notes += [
        f"The limit is “{limit}”. {len(PAYLOAD)}-byte payloads. Medians of {effort.rounds} rounds of {effort.cpu:g} "
        "CPU seconds, in which the servers take turns; the ratio is the median of the ratios of the rounds.",
        "1k, 5k, 10k: subscribers of one subscription. "
        + "; ".join(f"{c.name}: {c.subscribers:,} × {c.each} of {c.topics:,} topics" for c in CASES if c.topics > 1)
        + ", messages go to the topics in turn.",
        "The server has a core, the counter and the publisher the other one. Each publication is awaited by all "
        "subscribers before the next; every delivery was counted, and none was too many.",
        "All get publications over TCP, except in one row. C, bare uvloop and websockets read the number of a topic "
        "and have the message; the others read the message. Redis and Tocsin answer what they read, Tocsin 16 at once; "
        "the others do not.",
        *(figures.note for figures in next(iter(found.values())).values() if figures.note and size == 1),
    ]
    return table


def idle(found: Found) -> Table:
    table = Table("Bytes of memory per idle connection", ["server", *found])
    for name in names(found):
        table.add(name, *(max(0, round(figures[name].idle)) for figures in found.values()))
    table.notes.append("Resident memory with all connected and subscribed, less that before, over the connections.")
    return table


def latency(found: Found) -> Table:
    table = Table(
        "From the publication until the last subscriber has it, ms",
        ["server", *(f"{case}, {size} at once" for case in found for size in MODES)],
    )
    for name in names(found):
        table.add(name, *(median(figures[name].last[size]) for figures in found.values() for size in MODES))
    table.notes.append("Median of the rounds' medians.")
    return table


if __name__ == "__main__":
    harness.main("fanout", run)
