"""How long a plan takes: LDM, SDM, GSH and ours, against the algorithms as printed, and how that grows."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.harness import Table
from benchmarks.interests import network
from tocsin.balancing import strategies
from tocsin.balancing.trial import Trial

SIZES = [(10_000, 1_000, 10), (30_000, 3_000, 10), (100_000, 10_000, 30)]
FULL = [(1_000_000, 10_000, 100)]
PLANS: list[tuple[str, dict[str, Any]]] = [
    ("ldm", {"alpha": 0.15}),
    ("sdm", {"alpha": 0.15}),
    ("gsh", {"gamma": 0.0}),
    ("peal", {"gear": "repair"}),
    ("peal", {"gear": "auto"}),
]
LEAST = 50


def run(full: bool) -> list[Table]:
    growth = Table(
        "Seconds for a plan (uniform interests, skewed placement, 10 to 30 subscriptions each)",
        ["subscribers", "BE", "brokers", "strategy", "seconds", "growth", "moves", "max / bound", "peak memory, MB"],
        notes=[
            "Each plan in a process of its own; its memory includes the load itself and Python.",
            "Growth: seconds over those of the smallest size, per subscriber. 1 is linear.",
        ],
    )
    ours: dict[str, float] = {}
    for size in SIZES + (FULL if full else []):
        load = network("uniform", *size)
        for name, settings in PLANS:
            label = name if name != "peal" else f"peal, {settings['gear']}"
            harness.progress(f"{size} {label}")
            took, moves, ratio, memory = apart(plan, load, name, settings)
            if size == SIZES[0]:
                ours[label] = took
            slope = took / ours[label] * SIZES[0][0] / size[0]
            growth.add(*size, label, took, slope, moves, ratio, memory)
    return [against_printed(ours), growth]


def apart(work: Any, *args: Any) -> Any:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(False)
    process = context.Process(target=lambda: sender.send(work(*args)))
    process.start()
    answer = receiver.recv()
    process.join()
    return answer


def plan(load: Any, name: str, settings: dict[str, Any]) -> tuple[float, int, float, float]:
    started = time.perf_counter()
    moves = list(strategies.make(name, **settings).suggest(Trial(load)))
    took = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return took, len(moves), load.as_if(moves).maximum / load.lower_bound(), memory


def against_printed(ours: dict[str, float]) -> Table:
    """The transcription lives beside the tests, as their reference."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "balancing"))
    from literal import Literal

    load = network("uniform", *SIZES[0])
    table = Table(
        "Against the algorithms as printed, in plain Python (10,000 subscribers, 1,000 BE, 10 brokers)",
        ["algorithm", "as printed, s", "ours, s", "times faster"],
        notes=[f"Asked for: at least {LEAST} times. Both make the same moves (tests/balancing/test_literal.py)."],
    )
    rows = [set(load.rows[u].tolist()) for u in range(len(load.at))]
    for name, work in (
        ("ldm", lambda one: one.migrate("LDM", 0.15, 0.0)),
        ("sdm", lambda one: one.migrate("SDM", 0.15, 0.0)),
        ("gsh", lambda one: one.shuffle()),
    ):
        harness.progress(f"as printed: {name}")
        one = Literal(rows, load.at.tolist(), load.lam.tolist(), load.m)
        started = time.perf_counter()
        work(one)
        took = time.perf_counter() - started
        table.add(name, took, ours[name], took / ours[name])
    return table


if __name__ == "__main__":
    harness.main("balancing_speed", run)
