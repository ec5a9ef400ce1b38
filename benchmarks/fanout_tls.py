"""Fan-out with TLS: thousand deliveries per CPU second of the server, with and without encryption."""

from __future__ import annotations

import os

from benchmarks import harness
from benchmarks.fanout import __main__ as driver
from benchmarks.fanout import processes
from benchmarks.fanout.broker import Tocsin
from benchmarks.fanout.cases import CASES, PAYLOAD
from benchmarks.fanout.encrypted import TlsNats, TlsRedis, TlsTocsin
from benchmarks.fanout.server import Server
from benchmarks.fanout.servers import Nats, Redis
from benchmarks.harness import Table, median

#: Each with TLS and without.
PAIRS: list[tuple[type[Server], type[Server]]] = [(TlsTocsin, Tocsin), (TlsRedis, Redis), (TlsNats, Nats)]


def run(full: bool) -> list[Table]:
    effort = driver.Effort(15, 0.4) if full else driver.Effort(7, 0.3)
    os.sched_setaffinity(0, {processes.COUNTER_CORE})
    found = driver.measure([kind for pair in PAIRS for kind in pair], CASES, effort)
    return [*(rates(found, size, effort) for size in driver.MODES), driver.idle(found), driver.latency(found)]


def rates(found: driver.Found, size: int, effort: driver.Effort) -> Table:
    how = "one message at a time" if size == 1 else f"bursts of {size}"
    table = Table(
        f"Fan-out with TLS, {how}: thousand deliveries per CPU second of the server",
        ["server", *(word for case in found for word in (case, "of plain"))],
    )
    for encrypted, plain in PAIRS:
        cells: list[object] = []
        for figures in found.values():
            own, other = figures[encrypted.name].rates[size], figures[plain.name].rates[size]
            # The ratio of each round, not that of the medians: what slows the machine down slows both.
            cells += [median(own), f"{median(a / b for a, b in zip(own, other, strict=True)):.2f}×"]
        table.add(encrypted.name, *cells)
    table.notes += [
        f"{len(PAYLOAD)}-byte payloads; TLS 1.3 between server and subscribers, with a P-256 certificate. Medians of "
        f"{effort.rounds} rounds of {effort.cpu:g} CPU seconds, in which all servers take turns, with and without TLS; "
        "handshakes are not measured.",
        "Cases and servers are those of fanout. Redis and NATS get publications without TLS, Tocsin with it.",
    ]
    return table


if __name__ == "__main__":
    harness.main("fanout_tls", run)
