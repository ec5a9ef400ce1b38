"""Content matching beside other ways, and insertions and removals under churn. ``--sizes`` chooses the sizes."""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.content_matching.peers import Counting, DuckDB, Encoding, NumpyCounting, Peer, Shapes
from benchmarks.content_matching.workloads import Mixed, Stock
from benchmarks.harness import Table, median, percentile, progress
from tocsin.content import MatchIndex

SIZES = (10_000, 100_000)
LARGEST = 1_000_000
PUBLICATIONS = 400
#: Each way runs for at least so many CPU seconds and publications, or once through all publications.
CPU, FEWEST = 1.0, 5
CHURN = 2_000
CHECKED = 5
#: Mixed shapes are nearly as many as subscriptions: it would take minutes.
SHAPES_MOST = {"stock": LARGEST, "mixed": 100_000}
OURS = "Tocsin"


def run(full: bool, sizes: Sequence[int] = ()) -> list[Table]:
    chosen = list(sizes) or [*SIZES, *([LARGEST] if full else [])]
    return [table for workload in (Stock(), Mixed()) for table in measure(workload, chosen)]


def measure(workload: Stock | Mixed, sizes: Sequence[int]) -> list[Table]:
    attributes = workload.attributes
    publications = [attributes.publication(each) for each in workload.publications(PUBLICATIONS)]
    index, encoding = MatchIndex(attributes), Encoding(attributes)
    conditions = workload.conditions()
    micros: dict[str, list[float | None]] = {}
    memory: dict[str, list[int | None]] = {}
    changes: list[Sequence[Any]] = []
    matches = []
    before = resident()
    for size in sizes:
        progress(f"{workload.name}: {size:,} subscriptions")
        spent = []
        while len(index) < size:
            condition = next(conditions)
            started = time.process_time()
            index.add(len(index), condition)
            spent.append(time.process_time() - started)
            encoding.add(condition)
        gc.collect()
        own_bytes = (resident() - before - encoding.bytes) // size
        counts = [len(index.match_ordinals(each)) for each in publications[:CHECKED]]
        own = cost(index.match_ordinals, publications)
        matches.append(sum(len(index.match_ordinals(each)) for each in publications) / len(publications))
        record(micros, memory, OURS, own, own_bytes, len(matches))
        changes.append((size, *churned(index, workload, size), *summary(spent)))
        for kind in (Counting, NumpyCounting, DuckDB, Shapes):
            if kind is Shapes and size > SHAPES_MOST[workload.name]:
                record(micros, memory, kind.name, None, None, len(matches))
                continue
            peer: Peer = kind(encoding)
            vectors = [encoding.vector(each) for each in publications]
            found = [peer.match(vector) for vector in vectors[:CHECKED]]
            if found != counts:
                raise RuntimeError(f"{peer.name} finds {found}, not {counts}")
            took = cost(peer.match, vectors)
            record(micros, memory, peer.name, took, peer.bytes and peer.bytes // size, len(matches))
            peer.close()
    return [matched(workload, sizes, matches, micros, memory), changed(workload, changes)]


def record(
    micros: dict[str, list[float | None]],
    memory: dict[str, list[int | None]],
    name: str,
    took: float | None,
    bytes_each: int | None,
    column: int,
) -> None:
    for table, value in ((micros, took), (memory, bytes_each)):
        listed: list[Any] = table.setdefault(name, [])
        listed += [None] * (column - 1 - len(listed)) + [value]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def cost(match: Callable[[Any], Any], publications: Sequence[Any]) -> float:
    """µs CPU of one publication: the median over rounds of all of them, or the mean if they take long."""
    match(publications[0])
    rounds: list[float] = []
    started = time.process_time()
    while len(rounds) < 3 or time.process_time() - started < CPU:
        begun = time.process_time()
        for done, publication in enumerate(publications, 1):
            match(publication)
            if done >= FEWEST and time.process_time() - started > 3 * CPU:
                break
        rounds.append((time.process_time() - begun) / done)
        if done < len(publications):
            break
    return median(rounds) * 1e6


def churned(index: MatchIndex, workload: Stock | Mixed, size: int) -> list[float]:
    """µs CPU of removals: mean and 99th percentile. What is removed is replaced; then the old ones come back."""
    dice = random.Random(size)
    ids = dice.sample(range(size), min(CHURN, size // 2))
    wanted, removed = set(ids), {}
    for number, condition in enumerate(workload.conditions()):
        if number in wanted:
            removed[number] = condition
            if len(removed) == len(wanted):
                break
    gone, back = [], []
    for round in range(2):
        for at, id in enumerate(ids):
            started = time.process_time()
            index.remove(id)
            middle = time.process_time()
            index.add(id, removed[ids[(at + 1) % len(ids)] if round == 0 else id])
            back.append(time.process_time() - middle)
            gone.append(middle - started)
    return [*summary(gone), *summary(back)]


def summary(seconds: Sequence[float]) -> tuple[float, float]:
    return sum(seconds) / len(seconds) * 1e6, percentile(seconds, 99) * 1e6


def matched(
    workload: Stock | Mixed,
    sizes: Sequence[int],
    matches: Sequence[float],
    micros: dict[str, list[float | None]],
    memory: dict[str, list[int | None]],
) -> Table:
    columns = [cell for size in sizes for cell in (f"{size:,}", "× ours", "bytes each")]
    table = Table(f"{workload.name}: µs CPU per publication", ["way", *columns])
    for name, listed in micros.items():
        cells: list[Any] = []
        for at, took in enumerate(listed):
            own = micros[OURS][at]
            ratio = None if took is None or own is None else f"{took / own:.2f}×"
            cells += [took, ratio or "–", memory[name][at]]
        table.add(name, *cells)
    found = ", ".join(f"{count:,.0f} of {size:,}" for size, count in zip(sizes, matches, strict=True))
    table.notes += [
        f"{workload.__doc__} On average {found} match; all ways found the same number.",
        "Peers get publications that are encoded as numbers; for ours looking up texts counts.",
        f"Median of rounds of {PUBLICATIONS} publications, at least {CPU:g} s. Bytes of ours: growth of the process, "
        "without the conditions themselves.",
    ]
    return table


def changed(workload: Stock | Mixed, rows: list[Sequence[Any]]) -> Table:
    columns = ["subscriptions", "remove", "p99", "add again", "p99", "add to grow", "p99"]
    table = Table(f"{workload.name}: µs CPU of a change of the index", columns)
    for row in rows:
        table.add(*row)
    table.notes.append(f"{2 * CHURN:,} removals and additions in turns. Reading a condition is not included.")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--sizes", type=int, nargs="+", default=[])
    options, sys.argv[1:] = parser.parse_known_args()
    harness.main("content_matching", lambda full: run(full, options.sizes))


if __name__ == "__main__":
    main()
