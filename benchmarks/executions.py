"""One execution of "emergencies of type T at location L" over 10,000 new reports, from 1k to 1M subscriptions.

Beside it: one Spark query a subscription, and PostgreSQL with a parameter table and LATERAL, as Hasura multiplexes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pyarrow as pa

from benchmarks import harness, ours, peers
from benchmarks.harness import Table, median

REPORTS = 10_000
SAMPLE = 20
GROWTH = 5.0

Times = dict[int, list[float]]


#: Executions that do not count: Spark's JIT needs about as many.
WARM_UP = 12


def run(full: bool) -> list[Table]:
    sizes = [1_000, 10_000, 100_000, *([1_000_000] if full else [])]
    times = 7 if full else 5
    mine, single = measure_ours(sizes, times)
    with peers.postgres() as peer:
        hasura, lateral, version = measure_postgres(peer, sizes, times)
    table = Table(
        f"One execution over {REPORTS:,} new reports, ms",
        [
            "subscriptions",
            "Tocsin p50",
            "min",
            "a query each (extrapolated)",
            "PostgreSQL, Hasura's way p50",
            "min",
            "ratio to it",
            "PostgreSQL, plain JOIN LATERAL p50",
            "min",
            "ratio to it",
        ],
    )
    for size in sizes:
        own = median(mine[size])
        table.add(
            size,
            own * 1e3,
            min(mine[size]) * 1e3,
            single * size * 1e3,
            median(hasura[size]) * 1e3,
            min(hasura[size]) * 1e3,
            f"{median(hasura[size]) / own:.2f}×",
            median(lateral[size]) * 1e3,
            min(lateral[size]) * 1e3,
            f"{median(lateral[size]) / own:.2f}×",
        )
    grown = median(mine[100_000]) / median(mine[1_000])
    table.notes += [
        f"From 1k to 100k subscriptions the time grows {grown:.2f}-fold (target: at most {GROWTH:g}-fold).",
        f"Medians of {times} executions after {WARM_UP} that do not count (PostgreSQL: 2); "
        f"each follows a post of {REPORTS:,} reports; its "
        "time is from the snapshot to the committed result.",
        "Ratios above 1: Tocsin is faster.",
        f"A query each: {SAMPLE} Spark queries over the same new reports in memory, median {single * 1e3:.1f} ms, "
        "times the number of subscriptions.",
        f"{version}; {peers.POSTGRES_NOTE}, jit on and off, the better one counts. Reports have the indexes "
        "(kind, location, batch) and (batch), vacuumed and analysed before each execution.",
        "Hasura's way: parameter table LEFT JOIN LATERAL (json_agg of the rows); only what is not empty is stored, in "
        "one committed transaction. JOIN LATERAL: a row of JSON a match, not grouped by subscription, stored likewise.",
    ]
    return [table]


# -- ours --------------------------------------------------------------------------------------------------------------


def measure_ours(sizes: list[int], times: int) -> tuple[Times, float]:
    name = "EmergenciesOfTypeAtLocation"
    found: Times = {}
    with ours.cluster(ours.REPORTS + ours.channel(name), driver_memory="4g") as data:
        runner, done, posted = ours.runner_of(data, name), 0, 0

        def execute() -> float:
            nonlocal posted
            ours.publish(data, "Reports", ours.matching(posted, REPORTS, done))
            posted += REPORTS
            with data.context.runtime.pool(name):
                started = time.perf_counter()
                outcome = runner.run()
                took = time.perf_counter() - started
            if outcome.execution is None or outcome.execution.rows != REPORTS:
                raise RuntimeError(f"an execution came to {outcome}")
            return took

        for size in sizes:
            harness.progress(f"Tocsin, {size:,} subscriptions")
            ours.subscribe(data, name, done, size)
            done = size
            found[size] = repeat(execute, times, WARM_UP)
        single = one_by_one(data)
    return found, single


def one_by_one(data: Any) -> float:
    """The median time of one query for one subscription, over the new reports as a view in memory."""
    runtime = data.context.runtime
    records = ours.matching(0, REPORTS, REPORTS)
    columns = {name: [record[name] for record in records] for name in ours.COLUMNS}
    runtime.from_arrow(pa.table(columns)).createOrReplaceTempView("one_by_one")
    spent = []
    for number in range(SAMPLE + 3):
        kind, location = records[number]["kind"], records[number]["location"]
        text = (
            f"SELECT to_json(struct({', '.join(ours.COLUMNS)})) AS payload FROM one_by_one "
            f"WHERE kind = '{kind}' AND location = '{location}'"
        )
        started = time.perf_counter()
        runtime.to_arrow(runtime.session.sql(text))
        spent.append(time.perf_counter() - started)
    return median(spent[3:])


def repeat(work: Callable[[], float], times: int, warm_up: int) -> list[float]:
    for _ in range(warm_up):
        work()
    return [work() for _ in range(times)]


# -- PostgreSQL --------------------------------------------------------------------------------------------------------

SCHEMA = """
CREATE TABLE reports (report_id text, kind text, location text, lat float8, lon float8, severity int, message text,
                      time timestamptz, batch int);
CREATE INDEX ON reports (kind, location, batch);
CREATE INDEX ON reports (batch);
CREATE TABLE params (id bigint PRIMARY KEY, kind text, location text);
CREATE TABLE results (execution int, subscription bigint, payload json);
"""
ROWS = f"""SELECT {", ".join(f"r.{name}" for name in ours.COLUMNS)} FROM reports r
           WHERE r.kind = s.kind AND r.location = s.location AND r.batch > %(position)s"""
HASURA = f"""
INSERT INTO results
SELECT %(execution)s, s.id, q.root
FROM params s LEFT JOIN LATERAL (SELECT json_agg(row_to_json(r)) AS root FROM ({ROWS}) r) q ON true
WHERE q.root IS NOT NULL
"""
LATERAL = f"""
INSERT INTO results
SELECT %(execution)s, s.id, row_to_json(q)
FROM params s JOIN LATERAL ({ROWS}) q ON true
"""


def measure_postgres(peer: peers.Peer, sizes: list[int], times: int) -> tuple[Times, Times, str]:
    hasura: Times = {}
    lateral: Times = {}
    with psycopg.connect(peer.url, autocommit=True) as connection:
        connection.execute(SCHEMA)
        done, batch = 0, 0

        def execute(statement: str) -> float:
            nonlocal batch
            batch += 1
            load_reports(connection, batch, done)
            connection.execute("VACUUM ANALYZE reports")
            started = time.perf_counter()
            connection.execute(statement, {"execution": batch, "position": batch - 1})
            return time.perf_counter() - started

        for size in sizes:
            harness.progress(f"PostgreSQL, {size:,} subscriptions")
            with connection.cursor().copy("COPY params FROM STDIN") as copy:
                for number, (kind, location) in enumerate(ours.subscriptions(done, size), done):
                    copy.write_row((number, kind, location))
            done = size
            connection.execute("VACUUM ANALYZE params")
            for statement, found in ((HASURA, hasura), (LATERAL, lateral)):
                tries = []
                for jit in ("on", "off"):
                    connection.execute(f"SET jit = {jit}")
                    tries.append(repeat(partial(execute, statement), times, 2))
                    connection.execute("TRUNCATE results")
                found[size] = min(tries, key=median)
    return hasura, lateral, peer.version


def load_reports(connection: psycopg.Connection[Any], batch: int, among: int) -> None:
    with connection.cursor().copy("COPY reports FROM STDIN") as copy:
        for record in ours.matching((batch - 1) * REPORTS, REPORTS, among):
            copy.write_row((*(record[name] for name in ours.COLUMNS), batch))


if __name__ == "__main__":
    harness.main("executions", run)
