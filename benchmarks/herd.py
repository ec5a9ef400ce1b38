"""The herd: newcomers between two load reports all go to the broker that was the least loaded at the last one."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from benchmarks import harness
from benchmarks.harness import Table
from tocsin.balancing.placement import PLACEMENTS, Candidate, NewSubscriber, make

BROKERS, NEWCOMERS = 10, 5_000
PATIENCE = 250  # newcomers later a subscriber has made its subscriptions, and causes load


def herd(name: str, every: int, seed: int) -> float:
    """The highest load of a broker over the mean, at its worst, with reports after each ``every`` newcomers."""
    random, placement = Random(seed), make(name)
    load = {f"b{j}": 1000.0 for j in range(BROKERS)}
    places = [Candidate(broker, load[broker]) for broker in load]
    coming: list[tuple[str, float]] = []
    worst = 1.0
    for turn in range(NEWCOMERS):
        if turn % every == 0:
            places = [replace(place, load=load[place.broker]) for place in places]
        broker = placement.place(NewSubscriber(), places, random)
        assert broker is not None
        coming.append((broker, random.uniform(10, 30)))
        delay = 0 if every == 1 else PATIENCE
        while len(coming) > delay:
            where, weight = coming.pop(0)
            load[where] += weight
        worst = max(worst, max(load.values()) * BROKERS / sum(load.values()))
    return worst


def run(full: bool) -> list[Table]:
    gaps = (1, 100, 500, 2_000)
    table = Table(
        f"{NEWCOMERS:,} newcomers, {BROKERS} brokers: highest load over the mean, at its worst",
        ["placement", *[f"report after {gap:,} newcomers" for gap in gaps]],
        notes=[
            f"A newcomer causes load {PATIENCE} newcomers after its placement; in the first column at once.",
            "Mean of 5 seeds. Nearest without any location is chance.",
        ],
    )
    for name in PLACEMENTS:
        table.add(name, *[sum(herd(name, gap, seed) for seed in range(5)) / 5 for gap in gaps])
    return [table]


if __name__ == "__main__":
    harness.main("herd", run)
