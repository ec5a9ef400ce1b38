"""Peal, our own: as balanced as a shuffle for about the fewest possible moves, and groups where there are any.

The shuffle's weakness is its cost: it moves nine of ten subscribers, and spreads every interest over every broker, so
that all of them fetch everything. Peal has two gears, as a peal of bells is rung one bell after the other:

*Repair* (repair.py) brings every broker down to the maximum that a shuffle would reach, by shedding from those above it
only. *Regroup* (groups.py, hosts.py, refine.py, regroup.py) also lowers what is fetched in all: it finds hosts for
groups, lets everybody look for the best of them, then repairs. In automatic mode regrouping is chosen when it ends no
higher than repair and what it saves pays for all the moves that it takes more, at several looks (patience.py).

The finished plan is put in order (order.py): the maximum falls from the first move on, and any prefix is a plan too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tocsin.balancing.migration_order import in_order
from tocsin.balancing.model.loads import figure
from tocsin.balancing.model.migration import Migration, collapsed
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.regroup_gate import Stage, Wish
from tocsin.balancing.strategies.debs2019.gsh import shuffle
from tocsin.balancing.strategies.peal.groups import find_groups
from tocsin.balancing.strategies.peal.regroup import regrouped
from tocsin.balancing.strategies.peal.repair import repair
from tocsin.balancing.strategies.strategy import MinMax
from tocsin.errors import UserError

GEARS = ("auto", "repair", "regroup")
#: How many brokers may serve each group; 0: everybody begins where it is. Each is tried, the best is taken.
HOSTS = (0, 2, 3, 1)
#: Beyond so many subscriptions held only the first ones are tried.
LARGE, FIRST = 5_000_000, 2
#: Groups that hold less of their people's load than this are not worth looking at.
COHESION = 0.4
ROUNDING = 1e-9


@dataclass
class Peal(MinMax):
    """``trigger``: how far the maximum may be above what can be reached before anything is done.

    ``price``: what a regrouping move has to save, as a share of a subscriber's mean load. ``least``: what regrouping
    has to save in all, as a share of the whole load. ``goal``: how close to the lower bound it tries to come.
    ``looks``: at how many looks in a row regrouping has to pay before it begins. ``pause``: seconds of rest after it.
    """

    gear: str = "auto"
    trigger: float = 0.05
    price: float = 0.01
    least: float = 0.01
    goal: float = 0.01
    looks: float = 3
    pause: float = 600.0

    def __post_init__(self) -> None:
        if self.gear not in GEARS:
            raise UserError(f"peal has no gear {self.gear!r}", hint=f"use {', '.join(GEARS)}")
        for name in ("trigger", "price", "least", "goal", "looks", "pause"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UserError(f"{name} of peal is {getattr(self, name)!r}", hint="use 0 or more")

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        repaired = view.fork()
        plan, most = self._repair(repaired)
        # Where nobody is, there was no look in vain: the first who come are looked at at once.
        somebody = bool((view.at >= 0).any() and view.live.any())
        if self.gear != "repair" and view.stage is not Stage.REST and somebody:
            moves, why = self._regroup(view.fork())
            pays = bool(moves)
            if pays:
                pays, why = self._pays(view, repaired, view.after(moves), len(moves), len(plan), most)
            if pays and view.stage is Stage.GO and not (moves := self._ordered(view, moves)):
                pays, why = False, f"{why}, but nobody can go first"
            view.wish = Wish(len(moves) if pays else 0, int(self.looks), self.pause, f"regrouping: {why}")
            if pays and view.stage is Stage.GO:
                yield from moves
                return
        yield from self._ordered(view, plan)

    def _ordered(self, view: WhatIf, plan: list[Migration]) -> list[Migration]:
        """In the order in which they can be made; none of them if that makes nothing better."""
        ordered = list(in_order(view.fork(), plan))
        return ordered if self._better(view, view.after(ordered)) else []

    def _better(self, view: WhatIf, after: WhatIf) -> bool:
        """Lower at the top, or as high and with less in all: what only goes down comes to rest."""
        before, now = view.loads.maximum, after.loads.maximum
        saved = float((view.F - after.F)[view.live].sum())
        return now < before * (1 - ROUNDING) or (now <= before and saved > ROUNDING * float(view.F.sum()))

    def _repair(self, view: WhatIf) -> tuple[list[Migration], int]:
        """The moves, and how many a shuffle would make: what takes more is never worth it."""
        at, shuffled, maximum = view.at.copy(), shuffle(view), view.loads.maximum
        if shuffled is None:
            return [], len(at)
        us, targets, reached = shuffled
        most = int((view.at[us] != targets).sum())
        if maximum <= reached * (1 + self.trigger):
            return [], most
        return collapsed(at, list(repair(view, reached))), most

    def _regroup(self, view: WhatIf) -> tuple[list[Migration], str]:
        """The moves, or why there are none."""
        price = self.price * float(view.u[view.at >= 0].mean())
        if view.loads.maximum <= view.bound * (1 + self.goal):
            return [], f"the maximum is within {self.goal:.3g} of the lower bound"
        largest = float(view.capacity[view.live].max() / view.capacity[view.live].sum())
        groups = find_groups(view, largest, COHESION)
        if groups is None:
            return [], "there are no groups of people who want the same"
        strength, best, plan = float(view.capacity[view.live].sum()), float("inf"), list[Migration]()
        for hosts in HOSTS if view.rows.total <= LARGE else HOSTS[:FIRST]:
            tried = view.fork()
            moves = regrouped(tried, groups, hosts, price)
            cost = tried.loads.maximum * strength + price * len(moves)
            if cost < best:
                best, plan = cost, moves
        return plan, "everybody is with its group already"

    def _pays(
        self, view: WhatIf, repaired: WhatIf, grouped: WhatIf, moves: int, fewest: int, most: int
    ) -> tuple[bool, str]:
        """Is regrouping better than repair alone, which takes the ``fewest`` moves, by what it costs? And the sum.

        ``most``: what a shuffle would take.
        """
        highest, lowered = min(view.loads.maximum, repaired.loads.maximum), grouped.loads.maximum
        # A lower maximum is as good as that much less on every broker: it is what they have to be built for.
        lower = (highest - lowered) * float(view.capacity[view.live].sum())
        saved = max(lower, float((repaired.F - grouped.F)[view.live].sum()))
        cost = self.price * float(view.u[view.at >= 0].mean()) * max(moves - fewest, 0)
        needed = max(cost, self.least * float(repaired.F[view.live].sum()))
        before, after, gain, price = (figure(value) for value in (highest, lowered, saved, needed))
        text = f"{moves} moves, maximum {before} to {after}, saves {gain} and has to save {price}"
        if moves >= most:
            return False, f"{text}, but a shuffle takes {most} moves"
        if lowered > highest * (1 + ROUNDING):
            return False, f"{text}, but ends higher"
        return self.gear == "regroup" or saved > needed, text
