"""Content subscriptions: from a publication to the last of 1,000 subscribers, and publications per CPU second.

``--small`` runs everything in seconds, with a data cluster without Spark, and saves nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

from benchmarks import content_servers as content
from benchmarks import harness
from benchmarks.fanout import __main__ as fanout
from benchmarks.fanout import processes
from benchmarks.fanout.cases import Case
from benchmarks.fanout.counter import Counter
from benchmarks.fanout.golang import nats_server
from benchmarks.fanout.server import Server
from benchmarks.harness import Table, median, p99

LIVE: list[type[Server]] = [content.Live, content.Chain]
LIVE_PEERS: list[type[Server]] = [content.Nats, content.Redis, content.Mosquitto]
STORED_PEERS: list[type[Server]] = [content.JetStream, content.JetStreamEach]
#: Publications a second, one at a time.
RATE = 50.0
#: Publications of a turn that do not count.
WARM = 10


EFFORT = fanout.Effort(5, 0.3)


@dataclass(frozen=True)
class Size:
    """``turns`` of so many ``publications`` each, to ``subscribers``; ``connections`` with ``each`` conditions."""

    subscribers: int = 1_000
    turns: int = 5
    publications: int = 80
    connections: int = 100
    each: int = 1_000
    effort: fanout.Effort = EFFORT
    spark: bool = True


SMALL = Size(20, 1, 20, 10, 20, fanout.Effort(1, 0.02), spark=False)


@dataclass(frozen=True)
class Selective(Case):
    """Each topic has so many subscribers as ``matching``."""

    matching: int = 10

    @cached_property
    def subscriptions(self) -> list[list[int]]:
        return [
            [(number * self.each + place) % self.topics for place in range(self.each)]
            for number in range(self.subscribers)
        ]

    @classmethod
    def of(cls, connections: int, each: int, matching: int = 10) -> Selective:
        return cls("selective", connections, connections * each // matching, each, matching=matching)


# -- from a publication to the last subscriber -------------------------------------------------------------------------


class Audience:
    """A server with its subscribers, and the deliveries that they should have got."""

    def __init__(self, server: Server, counter: Counter) -> None:
        self._server, self._counter = server, counter
        self._expected = 0

    def milliseconds(self, publish: Callable[[Sequence[int]], None]) -> float:
        """From before the call until the last subscriber has the publication."""
        self._counter.expect(self._counter.connections)
        began = time.monotonic_ns()
        publish([0])
        self._expected += self._counter.connections
        return (self._counter.met().last - began) / 1e6

    def check(self) -> None:
        self._server.stop()
        got = self._counter.drained().deliveries
        if got != self._expected:
            raise RuntimeError(f"{self._server.name} delivered {got:,} instead of {self._expected:,}")


@dataclass
class Row:
    name: str
    audience: Audience
    publish: Callable[[Sequence[int]], None]
    note: str = ""
    times: list[float] = field(default_factory=list)

    def turn(self, publications: int, rate: float) -> None:
        due = time.monotonic()
        for number in range(WARM + publications):
            time.sleep(max(0.0, due - time.monotonic()))
            took = self.audience.milliseconds(self.publish)
            if number >= WARM:
                self.times.append(took)
            # A late one is not followed by a burst.
            due = max(due + 1 / rate, time.monotonic())


@contextmanager
def connected(server: Server, subscribers: int) -> Iterator[Audience]:
    harness.progress(f"{server.name}: {subscribers:,} subscribers connect")
    with server:
        openings = [server.opening(number, [0]) for number in range(subscribers)]
        with Counter(server.endpoint, openings, processes.COUNTER_CORE) as counter:
            if isinstance(server, content.Live | content.JetStream):
                server.subscribed(subscribers)
            yield Audience(server, counter)


def of(server: Server, size: Size, stack: ExitStack) -> Row:
    return Row(server.name, stack.enter_context(connected(server, size.subscribers)), server.publish, server.note)


def live(size: Size, peers: Sequence[type[Server]]) -> Table:
    with ExitStack() as stack:
        rows = [of(kind(), size, stack) for kind in [*LIVE, *peers]]
        take_turns(rows, size)
    return latencies("Live", rows, size, content.Nats)


def stored(size: Size, peers: Sequence[type[Server]]) -> Table:
    missing = content.JetStream.missing() if peers else ""
    with ExitStack() as stack:
        ours = content.Stored(spark=size.spark)
        first = of(ours, size, stack)
        second = Row(f"{ours.name}, published at the broker", first.audience, ours.publish_at_broker)
        first.name += ", published at the data cluster"
        rows = [first, second, *(of(kind(), size, stack) for kind in peers if not missing)]
        take_turns(rows, size)
    table = latencies("Stored", rows, size, content.JetStream)
    table.notes += [missing] if missing else []
    return table


def take_turns(rows: Sequence[Row], size: Size) -> None:
    order = random.Random(size.subscribers)
    for number in range(size.turns):
        harness.progress(f"turn {number + 1} of {size.turns}")
        for row in order.sample(rows, len(rows)):
            row.turn(size.publications, RATE)
    for audience in dict.fromkeys(row.audience for row in rows):
        audience.check()


def latencies(what: str, rows: Sequence[Row], size: Size, reference: type[Server]) -> Table:
    title = f"{what}: from a publication until the last of {size.subscribers:,} subscribers has it, ms"
    table = Table(title, ["server", "p50", "p99", f"p50 of {reference.name}", "p99 of it"])
    base = next((row.times for row in rows if row.name == reference.name), None)
    for row in rows:
        ratios = [f"{figure(row.times) / figure(base):.2f}×" if base else "–" for figure in (median, p99)]
        table.add(row.name, median(row.times), p99(row.times), *ratios)
    table.notes += [
        f"{size.turns} turns of {size.publications} publications, one at a time and {RATE:g} a second, after {WARM} "
        f"that do not count. All get the same record of {content.SIZE} bytes. The clock starts before the call that "
        "publishes.",
        f"Tocsin's subscribers have the condition “{content.condition(0)}”, those of the others a topic.",
        "The processes of all servers have a core, the counter and the publisher the other one. Every delivery was "
        "counted, and none was too many.",
        *dict.fromkeys(row.note for row in rows if row.note),
    ]
    return table


# -- publications per CPU second ---------------------------------------------------------------------------------------


def selective(size: Size, peers: Sequence[type[Server]]) -> Table:
    case = Selective.of(size.connections, size.each)
    found = fanout.measure_case([content.Unequal, *peers], case, size.effort)
    table = Table(
        f"Publications per CPU second of the server: {size.connections * size.each:,} subscriptions, "
        f"{case.matching} of them match",
        ["server", *(word for mode in fanout.MODES for word in (f"{mode} at once", f"of {content.Nats.name}"))],
    )
    base = found.get(content.Nats.name)
    for name, figures in found.items():
        cells: list[object] = []
        for mode, rates in figures.rates.items():
            # Rates are thousand deliveries.
            cells.append(median(rates) * 1e3 / case.matching)
            cells.append(f"{median(a / b for a, b in zip(rates, base.rates[mode], strict=True)):.2f}×" if base else "–")
        table.add(name, *cells)
    table.notes += [
        f"{size.connections} connections with {size.each:,} subscriptions each. "
        f"Tocsin: {size.connections * size.each:,} different conditions, such as "
        f"“{content.condition(17)}”, {case.matching} on each kind; the others: "
        f"{case.topics:,} topics, {case.matching} subscribers each.",
        f"Medians of {size.effort.rounds} rounds of {size.effort.cpu:g} CPU seconds, in which the servers take turns; "
        "the ratio is the median of the ratios of the rounds.",
        *(figures.note for figures in found.values() if figures.note),
    ]
    return table


def run(full: bool, size: Size | None = None, peers: bool = True) -> list[Table]:
    size = size or Size(turns=10 if full else 5)
    processes.allow_files()
    if peers:
        nats_server()  # before anything is measured: it may have to be built
    cores = os.sched_getaffinity(0)
    # Publishing is as little the server's work as counting.
    os.sched_setaffinity(0, {processes.COUNTER_CORE})
    try:
        return [
            live(size, LIVE_PEERS if peers else []),
            stored(size, STORED_PEERS if peers else []),
            selective(size, [content.Nats, content.Redis] if peers else []),
        ]
    finally:
        os.sched_setaffinity(0, cores)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    options, rest = parser.parse_known_args()
    sys.argv[1:] = [*rest, *(["--no-save"] if options.small or options.no_peers else [])]
    harness.main("content_delivery", partial(run, size=SMALL if options.small else None, peers=not options.no_peers))
