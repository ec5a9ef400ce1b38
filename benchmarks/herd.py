"""The herd: all subscribers between two load reports are placed at the broker that was least loaded at the first."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from benchmarks import harness
from benchmarks.harness import Table
from tocsin.balancing.placement import PLACEMENTS, Candidate, NewSubscriber, make

BROKERS, SUBSCRIBERS = 10, 5_000
DELAY = 250  # placements after which a subscriber has subscribed and causes load


def herd(name: str, every: int, seed: int) -> float:
    """The highest load of a broker over the mean, at its worst, with reports after each ``every`` placements."""
    random, placement = Random(seed), make(name)
    load = {f"b{j}": 1000.0 for j in range(BROKERS)}
    places = [Candidate(broker, load[broker]) for broker in load]
    placed: list[tuple[str, float]] = []
    worst = 1.0
    for turn in range(SUBSCRIBERS):
        if turn % every == 0:
            places = [replace(place, load=load[place.broker]) for place in places]
        broker = placement.place(NewSubscriber(), places, random)
        assert broker is not None
        placed.append((broker, random.uniform(10, 30)))
        delay = 0 if every == 1 else DELAY
        while len(placed) > delay:
            where, weight = placed.pop(0)
            load[where] += weight
        worst = max(worst, max(load.values()) * BROKERS / sum(load.values()))
    return worst


def run(full: bool) -> list[Table]:
    gaps = (1, 100, 500, 2_000)
    table = Table(
        f"{SUBSCRIBERS:,} new subscribers, {BROKERS} brokers: highest load over the mean, at its worst",
        ["placement", *[f"report after {gap:,} placements" for gap in gaps]],
        notes=[
            f"A new subscriber causes load {DELAY} placements after its own; in the first column at once.",
            "Mean of 5 seeds. Nearest without any location is random.",
        ],
    )
    for name in PLACEMENTS:
        table.add(name, *[sum(herd(name, gap, seed) for seed in range(5)) / 5 for gap in gaps])
    return [table]


if __name__ == "__main__":
    harness.main("herd", run)
