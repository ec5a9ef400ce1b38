"""Table 2: all strategies on the same components, and each component exchanged for every other that fits."""

from __future__ import annotations

import inspect
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tocsin.balancing.host.exchanger import Silent
from tocsin.balancing.strategies.antoine2014 import eventcloud
from tocsin.experiments.antoine2014.arena import Arena, build, unchanged
from tocsin.experiments.antoine2014.figure import Figure
from tocsin.experiments.antoine2014.network import Result, ordered
from tocsin.experiments.antoine2014.runs import Runs
from tocsin.experiments.antoine2014.swaps import all_swaps, attempt
from tocsin.experiments.chart import Chart, Panel, Series
from tocsin.experiments.outcome import Check, Outcome, Spread
from tocsin.overlay.balancing.strategies import STRATEGIES, Strategy
from tocsin.overlay.keyspace.chord.chord import hashed

#: What was fixed before any result: how much lower the deviation has to be, and the lines of a function.
LOWER, LINES = 0.8, 10
COLUMNS = ["strategy", "balances", "deviation without, %", "with, %", "messages between hosts", "items carried"]


def asked_only(strategy: Strategy) -> Strategy:
    """Gupta's peers join, but nothing is exchanged: they relieve the owner of the random key at which they ask."""
    return replace(strategy, composition=replace(strategy.composition, exchanger=Silent()))


def without(name: str, runs: Runs, seed: int) -> Result:
    """The same peers and the same load."""
    arena = build(name, runs.arena, seed, asked_only if name == "gupta" else unchanged)
    if name == "gupta":
        arena.space.run(runs.arena.seconds, 1.0)
    return first_places(arena) if arena.places else arena.result()


def first_places(arena: Arena) -> Result:
    """If every item were at the place of the first hash function."""
    members = sorted(arena.space.members, key=lambda each: each.me.rank)
    positions = [each.me.position for each in members]
    found = Counter(members[bisect_right(positions, hashed(key, 0)) - 1].me.host for key in arena.keys)
    return Result(ordered(float(found[name]) for name in arena.space.peers))


def balanced(name: str, runs: Runs, seed: int) -> tuple[Result, int, str]:
    arena = build(name, runs.arena, seed)
    arena.space.run(runs.arena.seconds, 1.0)
    return arena.result(), arena.space.net.carried, arena.criterion


def longest() -> dict[str, int]:
    """Lines of code of each function of EventCloud's components, without its signature and its docstring."""
    found = {}
    for kind in (eventcloud.NeighboursEstimate, eventcloud.FromPool):
        for name, function in inspect.getmembers(kind, inspect.isfunction):
            if function.__module__ == eventcloud.__name__ and name in vars(kind) and not name.startswith("__"):
                source = inspect.getsource(function).split(") -> ", 1)[-1].splitlines()[1:]
                doc = (function.__doc__ or "").splitlines()
                found[f"{kind.__name__}.{name}"] = len([line for line in source if line.strip()]) - len(doc)
    return found


@dataclass(frozen=True)
class Comparison:
    """One strategy, for each seed: the deviation without it and with it, what hosts sent, and the items carried."""

    name: str
    criterion: str
    before: Spread
    after: Spread
    mails: Spread
    carried: Spread

    @property
    def check(self) -> Check:
        holds = tuple(b <= LOWER * a for a, b in zip(self.before.values, self.after.values, strict=True))
        return Check(f"{self.name} balances {self.criterion}", f"{self.before}% → {self.after}%", holds)

    @property
    def row(self) -> list[str]:
        return [self.name, self.criterion, *map(str, (self.before, self.after, self.mails, self.carried))]


@dataclass(frozen=True)
class Compared:
    """A strategy with one seed: the deviations without and with it, what hosts sent, items carried, the criterion."""

    name: str

    def __str__(self) -> str:
        return self.name

    def __call__(self, runs: Runs, seed: int) -> tuple[float, float, float, float, str]:
        result, carried, criterion = balanced(self.name, runs, seed)
        bare = without(self.name, runs, seed)
        return bare.deviation, result.deviation, float(result.mails), float(carried), criterion


@dataclass(frozen=True)
class Exchanged:
    """With one seed, what is wrong after each exchange of a component."""

    def __str__(self) -> str:
        return "exchanged components"

    def __call__(self, runs: Runs, seed: int) -> list[str]:
        return [f"{swap}: {trouble}" for swap in all_swaps() for trouble in attempt(swap, seed)]


def compare(name: str, runs: Runs) -> Comparison:
    *values, criteria = zip(*(runs.one(Compared(name), seed) for seed in runs.seeds), strict=True)
    return Comparison(name, criteria[0], *map(Spread, values))


def outcome(runs: Runs, figure: Figure) -> Outcome:
    found = [compare(name, runs) for name in STRATEGIES]
    data: dict[str, list[Any]] = {
        "strategy": [each.name for each in found for _ in runs.seeds],
        "seed": [seed for _ in found for seed in runs.seeds],
        "without": [value for each in found for value in each.before.values],
        "with": [value for each in found for value in each.after.values],
    }
    checks = [*(each.check for each in found), exchanged(runs), short()]
    rows, charts = [each.row for each in found], [chart(figure, found)]
    return Outcome(figure.id, figure.title, figure.claim, checks, COLUMNS, rows, charts, list(figure.remarks), data)


def exchanged(runs: Runs) -> Check:
    wrong = [runs.one(Exchanged(), seed) for seed in runs.seeds]
    says = "with any component exchanged, no item is lost, each key has one owner, and every session ends"
    found = "; ".join([each for one in wrong for each in one][:3]) or f"{len(all_swaps())} exchanges"
    return Check(says, found, tuple(not each for each in wrong))


def short() -> Check:
    lines = longest()
    most = max(lines, key=lambda each: lines[each])
    found = f"at most {lines[most]} ({most})"
    return Check("a function of a component has fewer than ten lines", found, (lines[most] < LINES,), direction=False)


def chart(figure: Figure, found: Sequence[Comparison]) -> Chart:
    x = np.arange(len(found), dtype=np.float64) + 0.5
    series = [
        Series("without", x, np.array([each.before.mean for each in found]), tone=0),
        Series("with", x, np.array([each.after.mean for each in found]), tone=1),
    ]
    breaks = {"-": "\n", "eventcloud": "event\ncloud", "bharambe": "bha-\nrambe"}
    labels = [re.sub("|".join(breaks), lambda part: breaks[part.group()], each.name) for each in found]
    panel = Panel("Before and after", "", "relative standard deviation, %", series, kind="bars", labels=labels)
    return Chart(figure.id, figure.title, [panel], columns=1)


FIGURE = Figure(
    "P-T2",
    "all strategies on the same components",
    "the strategies of Rao, Gupta, Bharambe, Byers and EventCloud are made of the same components, and changing one "
    "does not touch the others",
    whole=outcome,
    others=(*map(Compared, STRATEGIES), Exchanged()),
)
