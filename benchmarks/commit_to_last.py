"""From the commit of an execution in the data cluster until the last subscriber has it, against one write to each."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from benchmarks import harness
from benchmarks.fanout import processes, servers
from benchmarks.fanout.broker import Tocsin
from benchmarks.fanout.cases import PAYLOAD
from benchmarks.fanout.counter import Counter
from benchmarks.fanout.server import Server
from benchmarks.harness import Table, median, p99

#: Rounds that do not count.
WARM = 5


@dataclass
class Row:
    """A server with its subscribers; ms until the first and until the last had it, one figure a round."""

    name: str
    server: Server
    counter: Counter
    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)

    def begin(self) -> int:
        """Begins a round; the time from which it counts."""
        now = time.monotonic_ns()
        self.server.publish([0])
        return now

    def round(self) -> None:
        self.counter.expect(self.counter.connections)
        began = self.begin()
        count = self.counter.met()
        self.first.append((count.first - began) / 1e6)
        self.last.append((count.last - began) / 1e6)


class Executed(Row):
    """The data cluster records an execution and notifies the broker, which pulls unless results were sent along."""

    def begin(self) -> int:
        server = self.server
        assert isinstance(server, Tocsin)
        server.cluster.found(server.channel, ([0], [{"payload": "x" * 200}]))
        return server.cluster.committed


def run(full: bool) -> list[Table]:
    os.sched_setaffinity(0, {processes.COUNTER_CORE})
    processes.allow_files()
    rounds = 300 if full else 60
    sizes = [100, 1_000, 10_000] if full else [100, 10_000]
    return [measure(size, rounds) for size in sizes]


def measure(subscribers: int, rounds: int) -> Table:
    table = Table(
        f"From the commit until the last of {subscribers:,} subscribers has it, ms",
        ["what", "first has it", "last has it", "99%", "of one write to each"],
    )
    order = random.Random(subscribers)
    with ExitStack() as stack:
        rows: list[Row] = []
        for name, kind, server in (
            ("one write to each, in C", Row, servers.Limit()),
            ("broker alone, notified with results", Row, Tocsin()),
            ("committed, push channel", Executed, Tocsin(channel="PushedAbove")),
            ("committed, pull channel", Executed, Tocsin()),
        ):
            harness.progress(f"{subscribers:,} subscribers: {name}")
            counter = stack.enter_context(connected(server, subscribers))
            rows.append(kind(name, server, counter))
        for number in range(rounds + WARM):
            if number == WARM:
                for row in rows:
                    row.first.clear()
                    row.last.clear()
            for row in order.sample(rows, len(rows)):
                row.round()
                time.sleep(0.01)  # remaining work of a round, such as emptying the outbox, must not delay the next one
        least = median(rows[0].last)
        for row in rows:
            last = median(row.last)
            table.add(row.name, median(row.first), last, p99(row.last), f"{last / least:.2f}×")
    table.notes += [
        f"Medians of {rounds} rounds in which the four take turns; messages of about {len(PAYLOAD)} bytes. The broker "
        "has a core; the data cluster and the counter share the other.",
        "Committed: the execution is in the catalog and could be read after a crash. From there the data cluster looks "
        "into its outbox, makes the message and posts it to the broker, which asks for the results (pull) or has them "
        "(push), and writes to every subscriber.",
    ]
    return table


@contextmanager
def connected(server: Server, subscribers: int) -> Iterator[Counter]:
    with server, Counter(server.endpoint, [server.opening(0, [0])] * subscribers, processes.COUNTER_CORE) as counter:
        yield counter


if __name__ == "__main__":
    harness.main("commit_to_last", run)
