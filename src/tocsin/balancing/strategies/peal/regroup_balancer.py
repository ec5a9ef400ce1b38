"""Regrouping as components: a balancer that repairs where regrouping does not pay, and its detector.

It first only proposes to regroup; the gate (regroup_gate.py) says when it may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.host.load_balancer import Deferral
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.model.loads import figure
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.debs2019.gsh import shuffle
from tocsin.balancing.strategies.peal.groups import find_groups
from tocsin.balancing.strategies.peal.regroup import regrouped
from tocsin.balancing.strategies.peal.regroup_gate import Permission, Proposal, RegroupGate
from tocsin.balancing.strategies.peal.repair_balancer import ROUNDING, Planned, not_negative, ordered, repaired
from tocsin.balancing.strategies.strategy import MIGRATES, View

#: How many brokers may serve each group; 0: all subscribers start where they are. Each is tried, the best is taken.
SPREADS = (0, 2, 3, 1)
#: With more subscriptions than this, only the first ones are tried.
LARGE, FIRST = 5_000_000, 2
#: Groups are ignored if they cover less than this share of their subscribers' load.
COHESION = 0.4


class Reached(NamedTuple):
    """By a shuffle: the maximum, infinite if it cannot be made, and how many migrations it takes: more never pay."""

    maximum: float
    migrations: int


@dataclass
class Populated:
    """There are subscribers: whether there is something to do is for the balancer to find out."""

    def make_decision(self, scope: View, criterion: str) -> LoadState:
        view = scope.model
        populated = bool(np.any(view.at >= 0) and view.live.any())
        return LoadState.OVERLOADED if populated else LoadState.NORMAL


@dataclass
class Regroup:
    """Brings subscribers with the same interests together where that pays, and else repairs.

    ``always``: whenever it lowers the maximum or the total, whatever it costs. The others are the strategy's.
    """

    trigger: float = 0.05
    price: float = 0.01
    least: float = 0.01
    goal: float = 0.01
    evaluations: float = 3
    rest: float = 600.0
    always: bool = False
    #: Without one it regroups at once.
    gate: RegroupGate | None = field(default=None, init=False)
    model: ClassVar[str] = "subscribers"
    actions: ClassVar[frozenset[ActionKind]] = MIGRATES

    def __post_init__(self) -> None:
        not_negative(self, "trigger", "price", "least", "goal", "evaluations", "rest")

    def begin(self) -> None:
        self.gate = RegroupGate()

    def concluded(self, found: Proposal | None, made: int, now: float) -> None:
        if self.gate is not None:
            self.gate.evaluated(now, found, made)

    def deferral(self, found: Proposal | None, now: float) -> Deferral | None:
        if self.gate is None:
            return None
        return replace(self.gate, proposal=found or self.gate.proposal).status(now)

    def select_target(self, scope: View, criterion: str, state: LoadState) -> Reached | None:
        view = scope.model
        # Without subscribers nothing is evaluated, so that the first ones are evaluated at once.
        if not ((view.at >= 0).any() and view.live.any()):
            return None
        shuffled = shuffle(view)
        if shuffled is None:
            return Reached(float("inf"), len(view.at))
        return Reached(shuffled.maximum, int((view.at[shuffled.subscribers] != shuffled.brokers).sum()))

    def select_load_to_move(self, scope: View, criterion: str, state: LoadState, target: Reached) -> Planned:
        view, after = scope.model, scope.model.fork()
        above = view.loads.maximum > target.maximum * (1 + self.trigger)
        plan = repaired(after, target.maximum) if above else []
        permission = Permission.SUGGEST if self.gate is None else self.gate.permission(scope.now)
        if permission is not Permission.REST:
            migrations, reason = self._regroup(view.fork())
            pays, moves = bool(migrations), Planned([], view)
            if pays:
                pays, reason = self._pays(view, after, view.after(migrations), len(migrations), len(plan), target)
            size = len(migrations) if pays else 0
            if pays and permission is Permission.SUGGEST:
                moves = ordered(view, migrations)
                size = len(moves.migrations)
                reason = reason if size else f"{reason}, but no migration can be the first"
            scope.found[criterion] = Proposal(size, int(self.evaluations), self.rest, f"regrouping: {reason}")
            if moves.migrations:
                return moves
        return ordered(view, plan)

    def rebalance(
        self, scope: View, criterion: str, state: LoadState, target: Reached, load: Planned
    ) -> Iterator[Migration]:
        yield from load.migrations
        scope.model.become(load.after)

    def _regroup(self, view: WhatIf) -> tuple[list[Migration], str]:
        """The migrations, or why there are none."""
        price = self.price * float(view.u[view.at >= 0].mean())
        if view.loads.maximum <= view.bound * (1 + self.goal):
            return [], f"the maximum is within {self.goal:.3g} of the lower bound"
        largest = float(view.capacity[view.live].max() / view.capacity[view.live].sum())
        groups = find_groups(view, largest, COHESION)
        if groups is None:
            return [], "no groups of subscribers share subscriptions"
        strength, best, plan = float(view.capacity[view.live].sum()), float("inf"), list[Migration]()
        for spread in SPREADS if view.rows.total <= LARGE else SPREADS[:FIRST]:
            tried = view.fork()
            migrations = regrouped(tried, groups, spread, price)
            cost = tried.loads.maximum * strength + price * len(migrations)
            if cost < best:
                best, plan = cost, migrations
        return plan, "all subscribers are with their group already"

    def _pays(
        self, view: WhatIf, repaired: WhatIf, grouped: WhatIf, migrations: int, fewest: int, shuffled: Reached
    ) -> tuple[bool, str]:
        """Whether regrouping is worth its cost compared with repair, which takes the ``fewest`` migrations; and the
        calculation as text."""
        highest, lowered = min(view.loads.maximum, repaired.loads.maximum), grouped.loads.maximum
        # A lower maximum counts on every broker, because each has to be built for it.
        lower = (highest - lowered) * float(view.capacity[view.live].sum())
        saved = max(lower, float((repaired.F - grouped.F)[view.live].sum()))
        cost = self.price * float(view.u[view.at >= 0].mean()) * max(migrations - fewest, 0)
        needed = max(cost, self.least * float(repaired.F[view.live].sum()))
        before, after, gain, price = (figure(value) for value in (highest, lowered, saved, needed))
        text = f"{migrations} migrations, maximum {before} to {after}, saves {gain} and has to save {price}"
        if migrations >= shuffled.migrations:
            return False, f"{text}, but a shuffle takes {shuffled.migrations} migrations"
        if lowered > highest * (1 + ROUNDING):
            return False, f"{text}, but ends higher"
        return self.always or saved > needed, text
