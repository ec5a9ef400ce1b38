"""What a tiny or empty execution costs against Spark's own floor, and what idle channels cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks import harness, ours, peers
from benchmarks.harness import Table, median
from tocsin.cluster.channels.runner import ChannelRunner
from tocsin.demo.city.reports import KINDS

SUBSCRIPTIONS = 100
REPORTS = 10
NAME = "EmergenciesOfTypeAtLocation"
TARGET = 2.0
IDLE_TARGET = 3.0


def run(full: bool) -> list[Table]:
    return [executions(60 if full else 25), idle(60.0 if full else 20.0)]


# -- tiny and empty ----------------------------------------------------------------------------------------------------


def executions(times: int) -> Table:
    table = Table(
        "A small execution against Spark's floor, ms", ["execution", "p50", "min", "floor p50", "min", "ratio"]
    )
    with ours.cluster(ours.REPORTS + ours.channel(NAME)) as data:
        ours.subscribe(data, NAME, 0, SUBSCRIPTIONS)
        runner = ours.runner_of(data, NAME)
        cases = {
            f"{REPORTS} new reports that match": lambda at: ours.matching(at, REPORTS, SUBSCRIPTIONS),
            f"{REPORTS} new reports that match no subscription": lambda at: [
                ours.report(at + n, "other", "nowhere") for n in range(REPORTS)
            ],
        }
        for label, make in cases.items():
            mine, floor = interleaved(data, runner, make, times)
            table.add(
                label,
                median(mine) * 1e3,
                min(mine) * 1e3,
                median(floor) * 1e3,
                min(floor) * 1e3,
                f"{median(mine) / median(floor):.2f}×",
            )
        quiet = harness.seconds(lambda: run_once(data, runner, "skipped"), times, 3)
        table.add("no new data", median(quiet) * 1e3, min(quiet) * 1e3, None, None, "")
    table.notes += [
        f"{SUBSCRIPTIONS} subscriptions; target: at most {TARGET:g}×.",
        "Floor: the very SQL text of the execution on the same rows, as temporary views of LocalRelations that were "
        "registered beforehand, collected as Arrow; ours and the floor take turns in one loop.",
        "Ours adds: the snapshot, the views, the grouped result segment and the catalog's transaction, both synced.",
        f"Medians of {times} after a warm-up.",
    ]
    return table


def interleaved(
    data: Any, runner: ChannelRunner, make: Callable[[int], list[dict[str, Any]]], times: int
) -> tuple[list[float], list[float]]:
    runtime = data.context.runtime
    mine: list[float] = []
    floor: list[float] = []
    posted = 0

    def post() -> None:
        nonlocal posted
        ours.publish(data, "Reports", make(posted))
        posted += REPORTS

    post()
    with text_on_views(data, runner) as text:
        rows = runtime.to_arrow(runtime.session.sql(text)).num_rows
        outcome = "ok" if rows else "empty"
        for number in range(times + 15):
            post()
            # The first run also takes the rows the views were made of.
            took = run_once(data, runner, outcome)
            started = time.perf_counter()
            runtime.to_arrow(runtime.session.sql(text))
            base = time.perf_counter() - started
            if number >= 15:
                mine.append(took)
                floor.append(base)
    return mine, floor


@contextmanager
def text_on_views(data: Any, runner: ChannelRunner) -> Iterator[str]:
    """The text of the next execution, on views that stay."""
    with (
        data.context.reading(runner.query.uses, runner.positions) as reading,
        data.context.tables[runner.channel.id].view(data.context.runtime) as subscriptions,
    ):
        now = time.time()
        yield runner.query.render_channel(reading.view, subscriptions, now=now, previous=now - 1)


def run_once(data: Any, runner: ChannelRunner, outcome: str) -> float:
    with data.context.runtime.pool(runner.channel.name):
        started = time.perf_counter()
        run = runner.run()
        took = time.perf_counter() - started
    if run.outcome != outcome:
        raise RuntimeError(f"an execution came to {run.outcome}, not {outcome}")
    return took


# -- idle --------------------------------------------------------------------------------------------------------------


def idle(seconds: float) -> Table:
    kinds, places, users = KINDS, [f"location-{n}" for n in range(12)], [f"user-{n}" for n in range(12)]
    arguments = {
        "EmergenciesOfType": [[kind] for kind in kinds],
        "EmergenciesAtLocation": [[place] for place in places],
        "EmergenciesNearMe": [[kind, user] for kind in kinds for user in users],
        "EmergenciesOfTypeNearMe": [[kind, user] for kind in kinds for user in users],
        "EmergenciesOfTypeAtLocation": [[kind, place] for kind in kinds for place in places],
        "EmergenciesOfTypeWithShelterNearMe": [[kind, user] for kind in kinds for user in users],
        "EmergenciesOfTypeAtLocationWithShelter": [[kind, place] for kind in kinds for place in places],
    }
    table = Table("Seven idle channels: CPU in % of a core", ["process", "%"])
    with ours.child() as server:
        server.sql(ours.EMERGENCY.read_text())
        server.sql(f'CREATE BROKER {ours.BROKER} AT "{ours.UNREACHABLE}"')
        for name, args in arguments.items():
            server.subscribe(name, args)
        time.sleep(15.0)  # the JVM's compiler has work left from the statements
        members = peers.family(server.pid)
        before = {member: harness.cpu_seconds(member) for member in members}
        started = time.perf_counter()
        time.sleep(seconds)
        spent = {member: harness.cpu_seconds(member) - before[member] for member in members}
        elapsed = time.perf_counter() - started
    table.add("tocsin cluster", 100 * spent[members[0]] / elapsed)
    table.add("its JVM", 100 * sum(spent[member] for member in members[1:]) / elapsed)
    table.add("both", 100 * sum(spent.values()) / elapsed)
    table.notes += [
        f"The channels of examples/emergency.sql with {sum(map(len, arguments.values()))} subscriptions and no data, "
        f"over {elapsed:.0f} s, from /proc; target: under {IDLE_TARGET:g}%.",
    ]
    return table


if __name__ == "__main__":
    harness.main("floor", run)
