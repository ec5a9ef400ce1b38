"""How much time a plan takes: LDM, SDM, GSH and ours, against the algorithms as printed, and how that grows."""

from __future__ import annotations

import multiprocessing
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.before_after import ROOT, measure, tree
from benchmarks.harness import Table, median
from benchmarks.interests import network
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies import registry
from tocsin.balancing.strategies.peal.peal import TRIGGER

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
    "peal, repair": lambda one: one.repair(TRIGGER),
}
LEAST = 50
#: The last revision before strategies ran on hosts: a balancer with the limits written into it.
BEFORE = "a0ba1e1"
TURNS = 7
#: Runs in either tree, and prints one line of JSON: by case the CPU seconds, the migrations and a digest of the plan.
WHOLE_PLANS = """
import hashlib, json, time
from benchmarks.interests import network
from tocsin.balancing.decisions import Limits
from tocsin.balancing.strategies import registry
try:
    from tocsin.balancing.central_host import CentralHost as Host
except ImportError:
    from tocsin.balancing.balancer import Balancer as Host
found = {{}}
Host(network("clustered", 1_000, 100, 3), registry.make("peal")).plan(0.0)  # imports and first calls are not measured
for kind, size, name, settings in {cases!r}:
    load = network(kind, *size)
    host = Host(load, registry.make(name, **settings), Limits(in_flight=10**9, per_broker=10**9, cool_down=0.0))
    started = time.process_time()
    plan = host.plan(0.0)
    took = time.process_time() - started
    moved = [tuple(map(int, each[:3])) for each in plan.migrations]
    label = f"{{name}} {{settings.get('mode', '')}}".strip()
    digest = hashlib.sha256(repr(moved).encode()).hexdigest()
    found[f"{{kind}}, {{size[0]:,}} subscribers: {{label}}"] = [took, len(moved), digest]
print(json.dumps(found))
"""
REPEATS = 5
#: CPU seconds, migrations, the maximum over the bound, and peak memory in MB.
Measured = tuple[float, int, float, float]


def run(full: bool) -> list[Table]:
    sizes = SIZES + (FULL if full else [])
    plain = growth("uniform", sizes, PLANS)
    grouped = growth("clustered", sizes, [("gsh", {"gamma": 0.0}), ("peal", {"mode": "auto"})])
    return [against_printed(plain[1]), plain[0], grouped[0], against_before(full)]


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
    from literal_debs2019 import Literal
    from literal_peal import LiteralPeal

    harness.progress(f"as printed: {name}")
    load = network("uniform", *SIZES[0])
    rows = [set(load.rows[u].tolist()) for u in range(len(load.at))]
    transcription = LiteralPeal if name.startswith("peal") else Literal
    one = transcription(rows, load.at.tolist(), load.lam.tolist(), load.m)
    started = time.process_time()
    PRINTED[name](one)
    return time.process_time() - started


def against_before(full: bool, turns: int = TURNS, sizes: list[tuple[int, int, int]] | None = None) -> Table:
    """Whole plans, with every decision, of the hosts and of what was there before; the two take turns."""
    plans = [*PLANS, ("multistage", {"gamma": 0.3})]
    uniform = [("uniform", size, *plan) for size in sizes or (SIZES if full else SIZES[:2]) for plan in plans]
    script = WHOLE_PLANS.format(cases=[*uniform, ("clustered", (sizes or SIZES)[0], "peal", {"mode": "auto"})])
    table = Table(
        "Before and after the hosts: CPU seconds for a plan with all its decisions",
        ["case", "before, s", "after, s", "after / before", "range", "migrations", "same plan"],
        notes=[
            f"Before: revision {BEFORE}, unpacked beside this one. Each tree in a process of its own, {turns} turns, "
            "each turn both in changing order; medians, and the range of the ratios of all turns.",
        ],
    )
    if not is_known(BEFORE):
        table.notes.append("Not measured: this clone does not have the revision.")
        return table
    taken: dict[str, dict[Path, list[Any]]] = defaultdict(lambda: defaultdict(list))
    with tree(BEFORE) as before:
        for turn in range(turns):
            for folder in (before, ROOT) if turn % 2 == 0 else (ROOT, before):
                harness.progress(f"whole plans: turn {turn + 1} of {turns}, {'after' if folder == ROOT else 'before'}")
                for case, found in measure(folder, script).items():
                    taken[case][folder].append(found)
    for case, sides in taken.items():
        old, new = (sides[folder] for folder in (before, ROOT))
        ratios = sorted(b[0] / a[0] for a, b in zip(old, new, strict=True))
        same = {each[2] for each in (*old, *new)}
        table.add(
            case,
            median(each[0] for each in old),
            median(each[0] for each in new),
            f"{median(ratios):.2f}",
            f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
            new[0][1],
            "yes" if len(same) == 1 else "NO",
        )
    return table


def is_known(revision: str) -> bool:
    command = ["git", "cat-file", "-e", f"{revision}^{{commit}}"]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode == 0


if __name__ == "__main__":
    harness.main("balancing_speed", run)
