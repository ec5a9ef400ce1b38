"""Peal, our own strategy: as balanced as a shuffle with close to the fewest migrations, and grouped where that pays.

The shuffle's weakness is its cost: it migrates nine of ten subscribers and spreads every interest over every broker, so
that all of them fetch everything. Peal has two modes:

*Repair* (repair.py) brings every broker down to the maximum that a shuffle would reach, by shedding only from brokers
above it. *Regroup* (groups.py, group_assignment.py, refinement.py, regroup.py) also lowers the total that is fetched:
it assigns brokers to groups of subscribers, lets each subscriber choose the best of them, then repairs. The automatic
mode regroups when that ends no higher than repair and its savings pay for the additional migrations, in several
evaluations in a row (regroup_gate.py).

The finished plan is ordered (migration_order.py): the maximum falls from the first migration on, and any prefix is a
valid plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tocsin.balancing.migration_order import in_order
from tocsin.balancing.model.loads import figure
from tocsin.balancing.model.migration import Migration, collapsed
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.regroup_gate import Permission, Proposal
from tocsin.balancing.strategies.debs2019.gsh import shuffle
from tocsin.balancing.strategies.peal.groups import find_groups
from tocsin.balancing.strategies.peal.regroup import regrouped
from tocsin.balancing.strategies.peal.repair import repair
from tocsin.balancing.strategies.strategy import MinMax
from tocsin.errors import UserError

MODES = ("auto", "repair", "regroup")
#: How many brokers may serve each group; 0: all subscribers start where they are. Each is tried, the best is taken.
SPREADS = (0, 2, 3, 1)
#: With more subscriptions than this, only the first ones are tried.
LARGE, FIRST = 5_000_000, 2
#: Groups are ignored if they cover less than this share of their subscribers' load.
COHESION = 0.4
ROUNDING = 1e-9


@dataclass
class Peal(MinMax):
    """``trigger``: how far the maximum may exceed the reachable one before Peal acts.

    ``price``: what a regrouping migration has to save, as a share of a subscriber's mean load. ``least``: what
    regrouping has to save in total, as a share of the whole load. ``goal``: how close to the lower bound it tries to
    come. ``evaluations``: how many in a row must find that regrouping pays. ``rest``: seconds of rest after it.
    """

    mode: str = "auto"
    trigger: float = 0.05
    price: float = 0.01
    least: float = 0.01
    goal: float = 0.01
    evaluations: float = 3
    rest: float = 600.0

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UserError(f"peal has no mode {self.mode!r}", hint=f"use {', '.join(MODES)}")
        for name in ("trigger", "price", "least", "goal", "evaluations", "rest"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UserError(f"{name} of peal is {getattr(self, name)!r}", hint="use 0 or more")

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        repaired = view.fork()
        plan, most = self._repair(repaired)
        # Without subscribers nothing is evaluated, so that the first ones are evaluated at once.
        populated = bool((view.at >= 0).any() and view.live.any())
        if self.mode != "repair" and view.permission is not Permission.REST and populated:
            migrations, reason = self._regroup(view.fork())
            pays = bool(migrations)
            if pays:
                pays, reason = self._pays(view, repaired, view.after(migrations), len(migrations), len(plan), most)
            if pays and view.permission is Permission.SUGGEST and not (migrations := self._ordered(view, migrations)):
                pays, reason = False, f"{reason}, but no migration can be the first"
            size = len(migrations) if pays else 0
            view.proposal = Proposal(size, int(self.evaluations), self.rest, f"regrouping: {reason}")
            if pays and view.permission is Permission.SUGGEST:
                yield from migrations
                return
        yield from self._ordered(view, plan)

    def _ordered(self, view: WhatIf, plan: list[Migration]) -> list[Migration]:
        """In an order in which they can be made; none of them if that improves nothing."""
        ordered = list(in_order(view.fork(), plan))
        return ordered if self._better(view, view.after(ordered)) else []

    def _better(self, view: WhatIf, after: WhatIf) -> bool:
        """A lower maximum, or the same maximum and a lower total, so that repeated plans come to an end."""
        before, now = view.loads.maximum, after.loads.maximum
        saved = float((view.F - after.F)[view.live].sum())
        return now < before * (1 - ROUNDING) or (now <= before and saved > ROUNDING * float(view.F.sum()))

    def _repair(self, view: WhatIf) -> tuple[list[Migration], int]:
        """The migrations, and how many a shuffle would make: more never pay."""
        at, shuffled, maximum = view.at.copy(), shuffle(view), view.loads.maximum
        if shuffled is None:
            return [], len(at)
        us, targets, reached = shuffled
        most = int((view.at[us] != targets).sum())
        if maximum <= reached * (1 + self.trigger):
            return [], most
        return collapsed(at, list(repair(view, reached))), most

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
        self, view: WhatIf, repaired: WhatIf, grouped: WhatIf, migrations: int, fewest: int, most: int
    ) -> tuple[bool, str]:
        """Whether regrouping is worth its cost compared with repair, which takes the ``fewest`` migrations; and the
        calculation as text. ``most``: what a shuffle would take."""
        highest, lowered = min(view.loads.maximum, repaired.loads.maximum), grouped.loads.maximum
        # A lower maximum counts on every broker, because each has to be built for it.
        lower = (highest - lowered) * float(view.capacity[view.live].sum())
        saved = max(lower, float((repaired.F - grouped.F)[view.live].sum()))
        cost = self.price * float(view.u[view.at >= 0].mean()) * max(migrations - fewest, 0)
        needed = max(cost, self.least * float(repaired.F[view.live].sum()))
        before, after, gain, price = (figure(value) for value in (highest, lowered, saved, needed))
        text = f"{migrations} migrations, maximum {before} to {after}, saves {gain} and has to save {price}"
        if migrations >= most:
            return False, f"{text}, but a shuffle takes {most} migrations"
        if lowered > highest * (1 + ROUNDING):
            return False, f"{text}, but ends higher"
        return self.mode == "regroup" or saved > needed, text
