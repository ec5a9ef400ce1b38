"""Repair as components: a detector that compares with what a shuffle would reach, and a balancer that goes there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.model.migration import Migration, collapsed
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.debs2019.gsh import shuffle
from tocsin.balancing.strategies.peal.migration_order import in_order
from tocsin.balancing.strategies.peal.repair import repair
from tocsin.balancing.strategies.strategy import MIGRATES, View
from tocsin.errors import UserError

ROUNDING = 1e-9


class Planned(NamedTuple):
    """Migrations in an order in which they can be made, and the load after them."""

    migrations: list[Migration]
    after: WhatIf


@dataclass
class Reachable:
    """The maximum exceeds the one that a shuffle would reach by more than ``trigger``."""

    trigger: float = 0.05
    model: ClassVar[str] = "subscribers"

    def __post_init__(self) -> None:
        not_negative(self, "trigger")

    def make_decision(self, scope: View, criterion: str) -> LoadState:
        shuffled = shuffle(scope.model)
        above = shuffled is not None and scope.model.loads.maximum > shuffled.maximum * (1 + self.trigger)
        return LoadState.OVERLOADED if above else LoadState.NORMAL


@dataclass
class Repair:
    """Brings every broker down to the maximum that a shuffle would reach, all in one iteration."""

    model: ClassVar[str] = "subscribers"
    actions: ClassVar[frozenset[ActionKind]] = MIGRATES

    def select_target(self, scope: View, criterion: str, state: LoadState) -> float | None:
        """The maximum to be reached."""
        shuffled = shuffle(scope.model)
        return None if shuffled is None else shuffled.maximum

    def select_load_to_move(self, scope: View, criterion: str, state: LoadState, target: float) -> Planned:
        return ordered(scope.model, repaired(scope.model.fork(), target))

    def rebalance(
        self, scope: View, criterion: str, state: LoadState, target: float, load: Planned
    ) -> Iterator[Migration]:
        yield from load.migrations
        scope.model.become(load.after)


def repaired(view: WhatIf, maximum: float) -> list[Migration]:
    """Repair in the view, and return the migrations."""
    at = view.at.copy()
    return collapsed(at, list(repair(view, maximum)))


def ordered(view: WhatIf, plan: list[Migration]) -> Planned:
    """In an order in which they can be made; none of them if that improves nothing."""
    migrations = list(in_order(view.fork(), plan))
    after = view.after(migrations)
    return Planned(migrations, after) if better(view, after) else Planned([], view)


def better(view: WhatIf, after: WhatIf) -> bool:
    """A lower maximum, or the same maximum and a lower total, so that repeated plans come to an end."""
    before, now = view.loads.maximum, after.loads.maximum
    saved = float((view.F - after.F)[view.live].sum())
    return now < before * (1 - ROUNDING) or (now <= before and saved > ROUNDING * float(view.F.sum()))


def not_negative(settings: object, *names: str) -> None:
    for name in names:
        if not 0 <= getattr(settings, name) < float("inf"):
            raise UserError(f"{name} of peal is {getattr(settings, name)!r}", hint="use 0 or more")
