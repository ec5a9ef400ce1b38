"""Idle connections: how fast they are made, what each costs in memory, and what all of them cost in CPU time."""

from __future__ import annotations

import resource
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks import harness
from benchmarks.fanout import processes
from benchmarks.fanout.broker import Tocsin
from benchmarks.fanout.counter import Counter, Opening
from benchmarks.harness import Table
from benchmarks.holder import Holder

#: Files that a process needs beside its connections.
SPARE = 150
#: Seconds between two pings to a connection, as a broker comes.
HEARTBEAT = 25.0
#: Seconds that an idle broker is observed without heartbeats.
WATCHED = 5.0
#: Connections of which the speed is measured. Of many more, the kernel of the client takes long to find a free port.
TIMED = 5_000
#: Connections made before the measured ones, so that nothing is loaded for the first time.
WARM = 200


def run(full: bool) -> list[Table]:
    processes.allow_files()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE
    table = Table(
        f"Idle connections, all subscribed to one subscription; {most:,} is what the limit on open files leaves",
        [
            "processes",
            "connections",
            "connected/s",
            "CPU ms each",
            "bytes each",
            "MB in all",
            "by process",
            "heartbeat",
            "CPU, idle",
        ],
    )
    for members, counters, heartbeat in cases(full):
        harness.progress(f"{members} processes, {counters} × {most:,} connections, heartbeat {heartbeat:g}")
        table.add(*measured(members, counters, most, heartbeat))
    table.notes += [
        "Bytes each: growth of the resident memory of all processes of the broker over the connections. MB in all: the "
        "resident memory, the process that starts the others included.",
        "By process: connections that the kernel gave to each process that shares the port (SO_REUSEPORT).",
        f"CPU of all processes over {WATCHED:g} seconds without heartbeats, or over a round of them, each connection "
        "being pinged once and answering. 1% is 10 ms in a second.",
        f"Connected: TCP, WebSocket handshake, hello, subscribe, each awaited; the first {TIMED:,}, 256 at a time by a "
        "program in C, with heartbeats one at a time by one in Python.",
    ]
    return [table]


def cases(full: bool) -> list[tuple[int, int, float]]:
    """(processes, programs that hold the most connections each, heartbeat)."""
    found = [(1, 1, 0.0), (1, 1, HEARTBEAT), (2, 1, 0.0)]
    return [*found, (2, 2, 0.0), (2, 1, HEARTBEAT)] if full else found


def measured(members: int, counters: int, most: int, heartbeat: float) -> list[Any]:
    core = processes.SERVER_CORE if members == 1 else None
    # Two processes that each hold half of twice as many: the kernel does not halve them exactly.
    size = most if counters == 1 else most - 1_000
    with Tocsin(core, members=members, heartbeat=heartbeat) as broker:
        openings = [broker.opening(0, [0])] * size
        with held(broker, openings[:WARM], 0.0):
            pass
        before = broker.resident()
        with ExitStack() as stack:
            began, spent = time.monotonic(), broker.cpu()
            stack.enter_context(held(broker, openings[:TIMED], heartbeat))
            took, spent = time.monotonic() - began, broker.cpu() - spent
            stack.enter_context(held(broker, openings[TIMED:], heartbeat))
            for _ in range(counters - 1):
                stack.enter_context(held(broker, openings, heartbeat))
            total = size * counters
            resident = broker.resident()
            spread = [connections(facts["inside"]) for facts in broker.facts]
            if sum(spread) != total:
                raise RuntimeError(f"the processes hold {spread} of {total:,} connections")
            watched = heartbeat or WATCHED
            time.sleep(1.0)
            before_idle = broker.cpu()
            time.sleep(watched)
            idle = (broker.cpu() - before_idle) / watched
    shown = " + ".join(f"{each:,}" for each in spread)
    beat = f"{heartbeat:g} s" if heartbeat else "none"
    each = round((resident - before) / total)
    cost = spent / TIMED * 1e3
    return [members, total, TIMED / took, cost, each, round(resident / 1e6), shown, beat, f"{idle:.1%}"]


@contextmanager
def held(broker: Tocsin, openings: list[Opening], heartbeat: float) -> Iterator[None]:
    with Holder(broker.endpoint, openings) if heartbeat else Counter(broker.endpoint, openings, processes.COUNTER_CORE):
        yield


def connections(inside: str) -> int:
    """That one process of a broker holds."""
    with urllib.request.urlopen(f"{inside}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return round(float(next(line.split()[1] for line in lines if line.startswith("tocsin_broker_connections "))))


if __name__ == "__main__":
    harness.main("connections", run)
