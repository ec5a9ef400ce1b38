"""How much faster than the clock the flow simulation is, at the paper's size and beyond it."""

from __future__ import annotations

import resource
import time
from typing import Any

from benchmarks import harness
from benchmarks.balancing_speed import apart
from benchmarks.harness import Table
from benchmarks.whole_coordinator import Whole
from tocsin.cli.output import progress
from tocsin.simulation.flow import PAPER, settings, simulate
from tocsin.simulation.flow.debs import Size, debs_simulation
from tocsin.simulation.flow.decision_makers import Parts

#: Mean load of a broker above which the paper's strategies begin, bytes a second.
BETA = 300e6
PLANS: list[tuple[str, str, dict[str, Any], bool]] = [
    ("none", "", {}, False),
    ("LDM, α .15", "ldm", {"alpha": 0.15, "beta": BETA}, False),
    ("GSH", "gsh", {"gamma": 0.5, "theta": BETA}, False),
    ("LDM, through the coordinator's state machine", "ldm", {"alpha": 0.15, "beta": BETA}, True),
]
SIZES = [
    Size(),
    Size(subscribers=30_000, backs=3_000),
    Size(subscribers=100_000, backs=10_000, brokers=30, channels=30),
]
FULL = [
    Size(subscribers=300_000, backs=10_000, brokers=50, channels=50),
    Size(subscribers=1_000_000, backs=10_000, brokers=100, channels=100),
]
LEAST = 200


def run(full: bool) -> list[Table]:
    half_hour = Table(
        "Half an hour of the paper's simulation (D-sim)",
        ["balancing", "seconds", "times the clock", "executions", "deliveries", "migrations", "peak memory, MB"],
        notes=[
            f"Asked for: at least {LEAST} times faster than the clock on one core, every delivery counted.",
            "Making the workload is not in these seconds; it is in those of the table below.",
        ],
    )
    for label, strategy, parameters, whole in PLANS:
        _, took, found = apart(measured, label, SIZES[0], strategy, parameters, whole)
        half_hour.add(label, took, SIZES[0].seconds / took, *found)
    return [half_hour, growth(full)]


def growth(full: bool) -> Table:
    table = Table(
        "Beyond it: half an hour, LDM at α .15, 10 to 30 subscriptions each",
        [
            "subscribers",
            "brokers",
            "BE",
            "workload, s",
            "run, s",
            "times the clock",
            "executions",
            "deliveries",
            "migrations",
            "peak memory, MB",
        ],
    )
    for size in SIZES + (FULL if full else []):
        label = f"{size.subscribers:,} subscribers"
        # β is a load of one broker: it falls with the load for each.
        parameters = {"alpha": 0.15, "beta": BETA * size.subscribers / 10_000 * 10 / size.brokers}
        made, took, found = apart(measured, label, size, "ldm", parameters, False)
        row = (size.subscribers, size.brokers, size.backs, made, took, size.seconds / took, *found)
        table.add(*row)
        harness.progress(f"{label}: {took:,.1f} s, {size.seconds / took:,.0f} times the clock")
    return table


def measured(
    label: str, size: Size, strategy: str, parameters: dict[str, Any], whole: bool
) -> tuple[float, float, tuple[int, int, int, float]]:
    """Seconds of the workload, seconds of the run, and what it counted; in a process of its own."""
    started = time.perf_counter()
    work = debs_simulation(1, size)
    made = time.perf_counter() - started
    how = settings(strategy, "nearest", limits=PAPER, **parameters)
    with progress() as bar:
        task = None if bar is None else bar.add_task(label, total=size.seconds)
        started = time.perf_counter()
        found = simulate(
            work,
            how,
            progress=lambda at: None if bar is None else bar.update(task, completed=at),
            decide=Whole if whole else Parts,
        )
        took = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return made, took, (found.executions, int(found.deliveries.sum()), len(found.migrations), memory)


if __name__ == "__main__":
    harness.main("simulation_speed", run)
