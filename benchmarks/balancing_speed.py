"""How much time a plan takes: LDM, SDM, GSH and ours, against the algorithms as printed, and how that grows."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.harness import Table
from benchmarks.interests import network
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies import registry
from tocsin.balancing.strategies.peal.peal import Peal

SIZES = [(10_000, 1_000, 10), (30_000, 3_000, 10), (100_000, 10_000, 30)]
FULL = [(1_000_000, 10_000, 100)]
PLANS: list[tuple[str, dict[str, Any]]] = [
    ("ldm", {"alpha": 0.15}),
    ("sdm", {"alpha": 0.15}),
    ("gsh", {"gamma": 0.0}),
    ("peal", {"mode": "repair"}),
    ("peal", {"mode": "auto"}),
]
PRINTED: dict[str, Callable[[Any], Any]] = {
    "ldm": lambda one: one.migrate("LDM", 0.15, 0.0),
    "sdm": lambda one: one.migrate("SDM", 0.15, 0.0),
    "gsh": lambda one: one.shuffle(),
    "peal, repair": lambda one: one.repair(Peal.trigger),
}
LEAST = 50
REPEATS = 5
#: CPU seconds, migrations, the maximum over the bound, and peak memory in MB.
Measured = tuple[float, int, float, float]


def run(full: bool) -> list[Table]:
    sizes = SIZES + (FULL if full else [])
    plain = growth("uniform", sizes, PLANS)
    grouped = growth("clustered", sizes, [("gsh", {"gamma": 0.0}), ("peal", {"mode": "auto"})])
    return [against_printed(plain[1]), plain[0], grouped[0]]


def growth(
    kind: str, sizes: list[tuple[int, int, int]], plans: list[tuple[str, dict[str, Any]]]
) -> tuple[Table, dict[str, float]]:
    """The table, and the seconds at the first size."""
    table = Table(
        f"CPU seconds for a plan ({kind} interests, skewed placement, 10 to 30 subscriptions each)",
        [
            "subscribers",
            "BE",
            "brokers",
            "strategy",
            "seconds",
            "growth",
            "migrations",
            "max / bound",
            "peak memory, MB",
        ],
        notes=[
            "Each plan in a process of its own; its memory includes the load itself and Python.",
            "Growth: seconds over those of the smallest size, per subscriber. 1 is linear.",
        ],
    )
    first: dict[str, float] = {}
    for size in sizes:
        # The first size takes so little that one run says nothing.
        repeats = REPEATS if size == sizes[0] else 1
        for label, (took, migrations, ratio, memory) in apart(at_size, kind, size, plans, repeats):
            slope = took / first.setdefault(label, took) * sizes[0][0] / size[0]
            table.add(*size, label, took, f"{slope:.2f}", migrations, f"{ratio:.4f}", memory)
    return table, first


def apart(work: Any, *args: Any) -> Any:
    """In a process of its own, which begins with the memory that this one has now."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(False)
    process = context.Process(target=lambda: sender.send(work(*args)))
    process.start()
    sender.close()  # so that a process that dies is not waited for
    answer = receiver.recv()
    process.join()
    return answer


def at_size(
    kind: str, size: tuple[int, int, int], plans: list[tuple[str, dict[str, Any]]], repeats: int
) -> list[tuple[str, Measured]]:
    """All plans for one network; the process that makes it has never held another."""
    load, found = network(kind, *size), []
    for name, settings in plans:
        label = name if name != "peal" else f"peal, {settings['mode']}"
        harness.progress(f"{kind} {size} {label}")
        tries = [apart(plan, load, name, settings) for _ in range(repeats)]
        found.append((label, sorted(tries)[len(tries) // 2]))
    return found


def plan(load: Any, name: str, settings: dict[str, Any]) -> Measured:
    started = time.process_time()
    migrations = list(registry.make(name, **settings).suggest(WhatIf(load)))
    took = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return took, len(migrations), load.as_if(migrations).maximum / load.lower_bound(), memory


def against_printed(ours: dict[str, float]) -> Table:
    table = Table(
        "Against the algorithms as printed, in plain Python (10,000 subscribers, 1,000 BE, 10 brokers)",
        ["algorithm", "as printed, s", "ours, s", "times faster"],
        notes=[
            f"CPU seconds. Asked for: at least {LEAST} times. Both make the same migrations (test_literal.py).",
            "Peal is not printed anywhere: its repair as described in its explanation (docs/explanation/balancing.md), "
            "in the same plain Python. Regrouping has no such form to compare with.",
        ],
    )
    for name in PRINTED:
        took = apart(printed, name)
        table.add(name, took, ours[name], took / ours[name])
    return table


def printed(name: str) -> float:
    """Times a transcription; these are beside the tests, as their reference."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "balancing"))
    from literal_peal import LiteralPeal

    harness.progress(f"as printed: {name}")
    load = network("uniform", *SIZES[0])
    rows = [set(load.rows[u].tolist()) for u in range(len(load.at))]
    one = LiteralPeal(rows, load.at.tolist(), load.lam.tolist(), load.m)
    started = time.process_time()
    PRINTED[name](one)
    return time.process_time() - started


if __name__ == "__main__":
    harness.main("balancing_speed", run)
