"""Bulk writes by executors: LOAD beside plain Spark in one run, and the memory of driver and JVM meanwhile.

``--records`` sets the size: 1,000,000 by default, 50,000,000 to see that memory stays flat.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import harness, ours
from benchmarks.harness import Table, median

RECORDS = 1_000_000
ROUNDS = 4
HEAP = "1g"
GOAL = 0.8
EVERY = 0.2
#: Kinds of records, and how many of them have a subscription: two fifths of the records are results.
KINDS, SUBSCRIBED = 2_500, 1_000

SETUP = """
CREATE ACTIVE DATASET Readings (n bigint NOT NULL, kind int, value double, at timestamp, note string);
CREATE DATASET Sensors (id bigint NOT NULL, value double, at timestamp) PRIMARY KEY id;
CREATE REPETITIVE CHANNEL OfKind(kind int) PERIOD duration("PT24H") {
  SELECT r.n, r.value FROM Readings r WHERE is_new(r) AND r.kind = kind
};
"""
SCHEMA = "n bigint, kind int, value double, at timestamp, note string"


class Memory:
    """The resident memory of both processes while something runs, in MB."""

    def __init__(self, data: Any) -> None:
        self._pids = {"driver": "self", "JVM": str(data.context.runtime.pid)}
        self._end = threading.Event()
        self._samples: list[dict[str, float]] = []

    def during(self, call: Callable[[], Any]) -> tuple[float, list[str]]:
        """Seconds, and for each process its memory at the beginning, after each third, and the peak."""
        self._end.clear()
        self._samples = [self._sample()]
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        started = time.perf_counter()
        try:
            call()
            took = time.perf_counter() - started
        finally:
            self._end.set()
            watcher.join()
        self._samples.append(self._sample())
        last = len(self._samples) - 1
        cells = []
        for name in self._pids:
            of = [sample[name] for sample in self._samples]
            cells.append(" → ".join(f"{of[last * third // 3]:.0f}" for third in range(4)) + f", peak {max(of):.0f}")
        return took, cells

    def _watch(self) -> None:
        while not self._end.wait(EVERY):
            self._samples.append(self._sample())

    def _sample(self) -> dict[str, float]:
        return {name: _resident(pid) for name, pid in self._pids.items()}


def _resident(pid: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def run(full: bool) -> list[Table]:
    records = RECORDS * (10 if full and RECORDS == 1_000_000 else 1)
    scratch = Path(tempfile.mkdtemp(prefix="tocsin-bulk-"))
    speed = Table(f"{records:,} records of JSON, heap {HEAP}", ["round", "LOAD, s", "plain Spark, s", "ratio"])
    memory = Table("Resident memory meanwhile, MB (begin → thirds → end, peak)", ["what", "seconds", "driver", "JVM"])
    try:
        # However few the records are, executors write the results.
        bound = min(500_000, records // 10)
        with ours.cluster(SETUP, driver_memory=HEAP, load_paths=(str(scratch),), collect_rows=bound) as data:
            for kind in range(0, SUBSCRIBED, 500):
                args = [[number] for number in range(kind, kind + 500)]
                data.subscribe("OfKind", ours.BROKER, args).result(120)
            session = data.context.runtime.session
            source = str(scratch / "in")
            session.range(records).selectExpr(
                "id AS n", f"int(id % {KINDS}) AS kind", "rand(7) AS value",
                "timestamp_millis(1763000000000 + id) AS at", "concat('reading number ', id) AS note",
            ).write.json(source)  # fmt: skip
            watched = Memory(data)
            ratios = []
            _plain(session, source, scratch / "warm-up")
            for number in range(ROUNDS):
                if number:
                    data.execute("DELETE FROM Readings")
                harness.progress(f"round {number + 1} of {ROUNDS}")
                # They take turns in who comes first.
                plain = _plain(session, source, scratch / f"plain-{number}") if number % 2 == 0 else 0.0
                took, cells = watched.during(lambda: _load(data, source, records))
                plain = plain or _plain(session, source, scratch / f"plain-{number}")
                ratios.append(plain / took)
                speed.add(number + 1, took, plain, plain / took)
                if number == ROUNDS - 1:
                    memory.add(f"LOAD of {records:,} records", took, *cells)
            keys = records // 5
            upsert = f"UPSERT INTO Sensors SELECT n % {keys}, value, at FROM Readings WHERE n < {2 * keys}"
            took, cells = watched.during(lambda: data.execute(upsert))
            memory.add(f"UPSERT of {keys:,} keys from {2 * keys:,} rows", took, *cells)
            (found,) = data.query("SELECT count(*) AS keys FROM Sensors")["keys"].to_pylist()
            if found != keys:
                raise RuntimeError(f"{found:,} keys instead of {keys:,}")
            runner = ours.runner_of(data, "OfKind")
            took, cells = watched.during(runner.run)
            rows = data.executions("OfKind")[-1]["rows"]
            memory.add(f"a channel with {rows:,} rows of results", took, *cells)
            if rows != records // KINDS * SUBSCRIBED:
                raise RuntimeError(f"{rows:,} rows of results")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    speed.notes += [
        f"Median ratio {median(ratios):.2f} (goal: at least {GOAL}).",
        "Plain Spark: `read.schema(…).json(…).write.parquet(…)` in the same session. LOAD also checks every record, "
        "keeps those that do not fit apart, makes the files durable and commits them.",
    ]
    memory.notes += [
        "The driver is the Python process of the data cluster; with a local master the JVM has the executors too."
    ]
    return [speed, memory]


def _plain(session: Any, source: str, target: Path) -> float:
    started = time.perf_counter()
    session.read.schema(SCHEMA).json(source).write.parquet(str(target))
    took = time.perf_counter() - started
    shutil.rmtree(target)
    return took


def _load(data: Any, source: str, records: int) -> None:
    (outcome,) = data.execute(f"LOAD DATASET Readings FROM '{source}' FORMAT json")
    if outcome.rows != records:
        raise RuntimeError(f"{outcome.rows:,} of {records:,} records loaded: {outcome.data}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--records", type=int, default=RECORDS)
    options, rest = parser.parse_known_args()
    RECORDS, sys.argv[1:] = options.records, rest
    harness.main("bulk", run)
