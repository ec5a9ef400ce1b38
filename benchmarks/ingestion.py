"""Records a second through HTTP on one core, beside PostgreSQL's INSERT and Redis' XADD, all of them durable."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg

from benchmarks import harness, load, ours, peers
from benchmarks.harness import Table, median, p99
from tocsin.demo.city.reports import KINDS

CONNECTIONS = 64
#: records a request, connections
SHAPES = ((1, CONNECTIONS), (100, 8), (1_000, 4))
VARIETY = 20_000
SIZE = 300


@dataclass
class Result:
    records: float
    cpu: float
    p50: float
    p99: float
    client: float


def run(full: bool) -> list[Table]:
    seconds = 10.0 if full else 4.0
    cores = sorted(os.sched_getaffinity(0))
    server, client = [cores[0]], cores[1:2] or cores
    records = [ours.report(n, KINDS[n % len(KINDS)], f"location-{n % 1000}", SIZE) for n in range(VARIETY)]
    os.sched_setaffinity(0, client)
    try:
        found = {
            "Tocsin": measure(tocsin, records, server, seconds),
            "PostgreSQL": measure(postgres, records, server, seconds),
            "Redis": measure(redis, records, server, seconds),
        }
    finally:
        os.sched_setaffinity(0, cores)
    table = Table(
        f"Durable ingestion on one core, reports of {SIZE} bytes",
        [
            "records a request",
            "connections",
            "server",
            "records/s",
            "Tocsin / it",
            "server CPU µs a record",
            "p50, ms",
            "p99, ms",
        ],
    )
    for shape in SHAPES:
        own = found["Tocsin"][shape].records
        for name, results in found.items():
            result = results[shape]
            table.add(
                *shape,
                name,
                result.records,
                f"{own / result.records:.2f}×",
                result.cpu * 1e6,
                result.p50 * 1e3,
                result.p99 * 1e3,
            )
    busiest = max(result.client for results in found.values() for result in results.values())
    table.notes += [
        f"Each server with all its processes is kept on one core, the client is on another and used at most "
        f"{busiest:.0%} of it; {seconds:g} s each after a warm-up; every answer means that the records are synced.",
        f"A sync of 4 kB appended to a file takes {sync() * 1e3:.2f} ms here.",
        "Tocsin: POST /feeds/…, one JSON record or NDJSON, checked against the schema; SQLite catalog.",
        f"{peers.POSTGRES_NOTE}. INSERT of a row, and of 100 and 1,000 rows in one VALUES list, prepared, one "
        "transaction each; a table with the same columns and no index.",
        f"{peers.REDIS_NOTE}; 100 and 1,000 of them pipelined.",
    ]
    return [table]


# -- the servers -------------------------------------------------------------------------------------------------------


@dataclass
class Target:
    """A running server; ``load`` makes the connections and requests of a shape."""

    pid: int
    load: Callable[[int, int], Any]


Requests = tuple[Sequence[socket.socket], Sequence[bytes], load.Complete]


def measure(
    open_server: Callable[..., Any], records: list[dict[str, Any]], cores: list[int], seconds: float
) -> dict[tuple[int, int], Result]:
    out = {}
    with open_server(records, cores) as target:
        for each, connections in SHAPES:
            harness.progress(f"{open_server.__name__}, {each:,} records a request")
            with target.load(each, connections) as (sockets, requests, complete):
                peers.pin(target.pid, cores)
                load.drive(sockets, requests, complete, 1.0)
                before, mine = peers.family_cpu(target.pid), time.process_time()
                done = load.drive(sockets, requests, complete, seconds)
                cpu = peers.family_cpu(target.pid) - before
                client = (time.process_time() - mine) / done.seconds
            count = done.requests * each
            out[each, connections] = Result(
                count / done.seconds, cpu / count, median(done.latencies), p99(done.latencies), client
            )
    return out


def batches(records: list[Any], each: int) -> list[list[Any]]:
    return [records[start : start + each] for start in range(0, len(records), each)]


@contextmanager
def opened(make: Callable[[], socket.socket], count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(make()) for _ in range(count)]


@contextmanager
def tocsin(records: list[dict[str, Any]], cores: list[int]) -> Iterator[Target]:
    with ours.child(cores) as server:
        server.sql(ours.REPORTS)

        @contextmanager
        def requests(each: int, connections: int) -> Iterator[Requests]:
            kind = "application/json" if each == 1 else "application/x-ndjson"
            bodies = [msgspec.json.encode(one[0]) if each == 1 else ours.ndjson(one) for one in batches(records, each)]
            with opened(lambda: load.connect(server.port), connections) as sockets:
                yield sockets, [load.http_post("/feeds/Reports", body, kind) for body in bodies], load.http_complete

        yield Target(server.pid, requests)


@contextmanager
def postgres(records: list[dict[str, Any]], cores: list[int]) -> Iterator[Target]:
    with peers.postgres() as peer:
        with psycopg.connect(peer.url, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE reports (report_id text NOT NULL, kind text NOT NULL, location text, "
                "lat float8 NOT NULL, lon float8 NOT NULL, severity int, message text, time timestamptz)"
            )

        @contextmanager
        def requests(each: int, connections: int) -> Iterator[Requests]:
            width = len(ours.COLUMNS)
            row = "(" + ", ".join(["${}"] * width) + ")"
            rows = ", ".join(row.format(*range(at * width + 1, at * width + width + 1)) for at in range(each))
            text = f"INSERT INTO reports VALUES {rows}"
            made = [
                load.postgres_execute("put", [str(record[name]) for record in one for name in ours.COLUMNS])
                for one in batches(records, each)
            ]
            with ExitStack() as stack:
                sockets = []
                for _ in range(connections):
                    connection = stack.enter_context(psycopg.connect(peer.url, autocommit=True))
                    connection.pgconn.prepare(b"put", text.encode())
                    # libpq has logged in and prepared the statement; the bytes that follow are ours.
                    sockets.append(socket.socket(fileno=os.dup(connection.fileno())))
                yield sockets, made, load.postgres_complete
                for each_socket in sockets:
                    each_socket.close()

        yield Target(peer.pid, requests)


@contextmanager
def redis(records: list[dict[str, Any]], cores: list[int]) -> Iterator[Target]:
    with peers.redis() as peer:
        texts = [msgspec.json.encode(record) for record in records]

        @contextmanager
        def requests(each: int, connections: int) -> Iterator[Requests]:
            made = [load.redis_add("reports", one) for one in batches(texts, each)]
            with opened(lambda: load.connect(peer.port), connections) as sockets:
                yield sockets, made, load.redis_complete(each)

        yield Target(peer.pid, requests)


def sync(times: int = 50) -> float:
    """Median time of an fdatasync after an append, in the folder of all data."""
    spent = []
    with tempfile.TemporaryFile() as file:
        for _ in range(times):
            os.write(file.fileno(), b"x" * 4096)
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            spent.append(time.perf_counter() - started)
    return median(spent)


if __name__ == "__main__":
    harness.main("ingestion", run)
