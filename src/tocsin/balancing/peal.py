"""Peal, our own: as balanced as a shuffle for about the fewest possible moves, and groups where there are any.

The shuffle's weakness is its cost: it moves nine of ten subscribers, and spreads every interest over every broker, so
that all of them fetch everything. Peal has two gears, as a peal of bells is rung one bell after the other:

*Repair* (repair.py) brings every broker down to the maximum that a shuffle would reach, by shedding from those above it
only. *Regroup* (groups.py, regroup.py, tidy.py) also lowers what is fetched in all: it empties cells, in the order of
what a move saves, then single subscribers, then repairs. In automatic mode regrouping is chosen when it ends no higher
than repair and what it saves pays for all the moves that it takes more.

The finished plan is put in order (order.py): the maximum falls from the first move on, and any prefix is a plan too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tocsin.balancing.groups import find_groups
from tocsin.balancing.gsh import shuffle
from tocsin.balancing.move import Move, collapsed
from tocsin.balancing.order import in_order
from tocsin.balancing.regroup import Cells, regroup, unload
from tocsin.balancing.repair import repair
from tocsin.balancing.strategy import MinMax
from tocsin.balancing.tidy import tidy
from tocsin.balancing.trial import Trial
from tocsin.errors import UserError

GEARS = ("auto", "repair", "regroup")
#: Rounds of regrouping and balancing; each disturbs what the other has done, and less each time.
ROUNDS = 5
#: How far above the mean a broker may be filled while groups are brought together; repaired afterwards.
ROOM = 0.1
#: How far above the mean the regrouped brokers may end.
TIGHT = 0.001
#: How far above it single subscribers may lift a broker at first: with room they find better places, and the repair
#: that follows undoes some of it, so there is less room each time.
LOOSE, COOLING = 0.01, 0.75
#: Rounds without an improvement of at least this share after which tidying ends.
PATIENCE, WORTHWHILE = 4, 5e-5
#: Groups that hold less of their people's load than this are not worth looking at.
COHESION = 0.4
ROUNDING = 1e-9


@dataclass
class Peal(MinMax):
    """``trigger``: how far the maximum may be above what can be reached before anything is done.

    ``price``: what a regrouping move has to save, as a share of a subscriber's mean load. ``least``: what regrouping
    has to save in all, as a share of the whole load. ``goal``: how close to the lower bound it tries to come.
    """

    gear: str = "auto"
    trigger: float = 0.05
    price: float = 0.01
    least: float = 0.005
    goal: float = 0.01

    def __post_init__(self) -> None:
        if self.gear not in GEARS:
            raise UserError(f"peal has no gear {self.gear!r}", hint=f"use {', '.join(GEARS)}")

    def suggest(self, view: Trial) -> Iterator[Move]:
        repaired = view.fork()
        plan = self._repair(repaired)
        if self.gear != "repair":
            moves = self._regroup(view.fork())
            if moves and self._pays(view, repaired, view.after(moves), len(moves) - len(plan)):
                plan = moves
        ordered = list(in_order(view.fork(), plan))
        if self._better(view, view.after(ordered)):
            yield from ordered

    def _better(self, view: Trial, after: Trial) -> bool:
        """Lower at the top, or as high and with less in all: what only goes down comes to rest."""
        before, now = view.loads.maximum, after.loads.maximum
        saved = float((view.F - after.F)[view.live].sum())
        return now < before * (1 - ROUNDING) or (now <= before and saved > ROUNDING * float(view.F.sum()))

    def _repair(self, view: Trial) -> list[Move]:
        at, shuffled, maximum = view.at.copy(), shuffle(view), view.loads.maximum
        target = maximum if shuffled is None else min(maximum, shuffled[2])
        if maximum <= target * (1 + self.trigger):
            return []
        return collapsed(at, list(repair(view, target)))

    def _regroup(self, view: Trial) -> list[Move]:
        attached = view.at >= 0
        if not attached.any() or not view.live.any():
            return []
        at = view.at.copy()
        price = self.price * float(view.u[attached].mean())
        bound = view.bound
        if view.loads.maximum <= bound * (1 + self.goal):
            return []
        largest = float(view.capacity[view.live].max() / view.capacity[view.live].sum())
        groups = find_groups(view, largest, COHESION)
        if groups is None:
            return []
        enough = bound * (1 + self.goal)
        played: list[Move] = []
        for _ in range(ROUNDS):
            cells = Cells(view, groups)
            played += regroup(view, cells, price=price, enough=enough, room=ROOM)
            played += unload(view, cells, view.mean)
            played += repair(view, view.mean * (1 + 3 * TIGHT), thrifty=True)
            if view.mean <= enough:
                break
        best, kept, since, loose = float("inf"), 0, 0, LOOSE
        while since < PATIENCE:
            played += tidy(view, price=price, limit=view.mean * (1 + loose))
            for _ in range(2):  # whoever moves may have to be fetched for, which raises the mean
                played += repair(view, view.mean * (1 + min(TIGHT, loose / 2)), thrifty=True)
            since += 1
            if view.loads.maximum < best:
                if view.loads.maximum < best * (1 - WORTHWHILE):
                    since = 0
                best, kept = view.loads.maximum, len(played)
            loose = max(loose * COOLING, TIGHT)
        return collapsed(at, played[:kept])

    def _pays(self, view: Trial, repaired: Trial, grouped: Trial, more: int) -> bool:
        """Is regrouping better than repair alone, by what it costs?"""
        highest = min(view.loads.maximum, repaired.loads.maximum)
        if grouped.loads.maximum > highest * (1 + ROUNDING):
            return False
        if self.gear == "regroup":
            return True
        # A lower maximum is as good as that much less on every broker: it is what they have to be built for.
        lower = (highest - grouped.loads.maximum) * float(view.capacity[view.live].sum())
        saved = max(lower, float((repaired.F - grouped.F)[view.live].sum()))
        cost = self.price * float(view.u[view.at >= 0].mean()) * max(more, 0)
        return saved > max(cost, self.least * float(repaired.F[view.live].sum()))
