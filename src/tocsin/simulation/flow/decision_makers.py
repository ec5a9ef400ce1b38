"""Who decides: the coordinator's state machine, or the parts that it is made of where its reports would be too many.

Both are given the same and answer the same (a test holds them to it). ``Whole`` is told by reports in which every
changed subscriber is a name with a list, as brokers tell it. ``Parts`` shares the truth and takes the coordinator's
balancer, strategies, placements and allowances themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple, Protocol

import numpy as np

from tocsin.balancing import placement
from tocsin.balancing.balancer import Balancer
from tocsin.balancing.decisions import Limits
from tocsin.balancing.model.arrays import Ints, Longs
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.placement import Newcomer, Place
from tocsin.balancing.strategies import registry
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import BrokerRow
from tocsin.coordinator.core.members import Member
from tocsin.coordinator.core.state import CoordinatorState
from tocsin.coordinator.core.strategy_chain import StrategyChain
from tocsin.errors import SystemTrouble
from tocsin.simulation.flow.crowd import Crowd
from tocsin.simulation.flow.nearest import nearest
from tocsin.simulation.flow.workload import Workload
from tocsin.wire.reports import BrokerRequest, LoadReport, Registration, ReportReply


class Order(NamedTuple):
    """A subscriber is told to go."""

    subscriber: int
    source: int
    target: int
    why: str


class Deciding(Protocol):
    def place(self, us: Longs, now: float) -> Ints:
        """Where these newcomers go, in the order in which they come."""

    def report(self, changed: Longs, left: list[tuple[int, int]], news: Longs, now: float) -> list[Order]:
        """All brokers report: who has changed, who has left which broker, which rates. The answers are orders."""

    def tick(self, now: float) -> None: ...


class Parts:
    """The truth is shared, so a report has only rates and arrivals to tell."""

    def __init__(self, config: CoordinatorConfig, work: Workload, crowd: Crowd, rng: Random) -> None:
        self.config, self.work, self.crowd, self.rng = config, work, crowd, rng
        main = [registry.make(config.strategy, **config.settings)] if config.strategy else []
        limits = config.limits
        self.balancer = Balancer(
            crowd,
            StrategyChain([registry.make("drain"), *main]),
            Limits(limits.moves, limits.per_broker, limits.cool_down, limits.least_gain),
        )
        self.placement = placement.make(config.placement)
        self.members = [
            Member(BrokerRow(name(j), "", float(each), 2**31 - 1), j) for j, each in enumerate(work.capacity)
        ]
        self.places: list[Place] = []
        self.orders: list[dict[int, Migration]] = [{} for _ in self.members]
        self.balanced = float("-inf")
        self._refresh()

    def _refresh(self) -> None:
        """What placement sees until the next report."""
        load, count = self.crowd.loads.F, self.crowd.count
        arriving = Counter(move.target for move in self.balancer.pending.values())
        self.places = [
            Place(name(j), float(load[j]), each.row.capacity, int(count[j]) + arriving[j], each.row.most, True, at)
            for j, (each, at) in enumerate(zip(self.members, map(tuple, self.work.brokers_at.tolist()), strict=True))
        ]

    def place(self, us: Longs, now: float) -> Ints:
        if isinstance(self.placement, placement.Nearest):
            return nearest(self.work.people_at[us], self.work.brokers_at)
        found = np.empty(len(us), dtype=np.int32)
        for i, at in enumerate(self.work.people_at[us].tolist()):
            chosen = self.placement.place(Newcomer((at[0], at[1])), self.places, self.rng)
            if chosen is None:
                raise SystemTrouble("no broker takes anybody")
            j = found[i] = number(chosen)
            old = self.places[j]
            self.places[j] = Place(old.broker, old.load, old.capacity, old.subscribers + 1, old.most, old.open, old.at)
        return found

    def report(self, changed: Longs, left: list[tuple[int, int]], news: Longs, now: float) -> list[Order]:
        for u, _ in left:
            self.balancer.finished(u, now)
        found = [order for j in range(len(self.members)) for order in self._hand_out(j, now)]
        self._refresh()
        return found

    def _hand_out(self, j: int, now: float) -> Iterable[Order]:
        member, waiting = self.members[j], self.orders[j]
        member.fill(now, self.config.limits.per_second)
        while waiting and member.allowance >= 1.0:
            u = next(iter(waiting))
            move = waiting.pop(u)
            member.allowance -= 1.0
            yield Order(u, j, move.target, move.why)

    def tick(self, now: float) -> None:
        if now - self.balanced >= self.config.balance_every:
            self.balanced = now
            moves = self.balancer.plan(now).moves
            for move in moves:
                self.orders[move.source][move.subscriber] = move
            if moves:
                self._refresh()


class Whole:
    """The state machine behind its own events: what is known of subscribers is what brokers have reported."""

    def __init__(self, config: CoordinatorConfig, work: Workload, crowd: Crowd, rng: Random) -> None:
        self.work, self.crowd = work, crowd
        nonces = iter(range(2**62))
        self.state = CoordinatorState(config, b"simulated", rng, lambda: 0.0, lambda: str(next(nonces)))
        self._number_alike()
        self.reports = 0
        self.tokens = [self._tell(ev.Register(None, self._registration(j)), 0.0).token for j in range(work.brokers)]
        self.why: dict[str, str] = {}
        nothing = np.empty(0, dtype=np.int64)
        self.report(nothing, [], nothing, 0.0)

    def _number_alike(self) -> None:
        """The same numbers as in the truth, so that where two are equal the same one is taken."""
        picture = self.state.picture
        for u in range(self.work.subscribers):
            picture.load.join(picture.subscribers.number(person(u)))
        for k in range(self.work.backs):
            picture.load.rate(picture.backs.number(k), 0.0)

    def _registration(self, j: int) -> Registration:
        lat, lon = self.work.brokers_at[j].tolist()
        return Registration(name(j), f"ws://{name(j)}", capacity=float(self.work.capacity[j]), lat=lat, lon=lon)

    def place(self, us: Longs, now: float) -> Ints:
        found = np.empty(len(us), dtype=np.int32)
        for i, u in enumerate(us.tolist()):
            lat, lon = self.work.people_at[u].tolist()
            found[i] = number(self._tell(ev.Place(None, BrokerRequest(person(u), lat, lon)), now).broker)
        return found

    def report(self, changed: Longs, left: list[tuple[int, int]], news: Longs, now: float) -> list[Order]:
        self.reports += 1
        held = self.crowd.n[news] > 0
        held[:, 0] |= ~held.any(axis=1)  # what nobody wants yet has to be known when somebody does
        rows: list[dict[str, list[int]]] = [{} for _ in range(self.work.brokers)]
        for u in changed.tolist():
            rows[int(self.crowd.at[u])][person(u)] = self.crowd.rows[u].tolist()
        gone: list[list[str]] = [[] for _ in rows]
        for u, source in left:
            gone[source].append(person(u))
        found = []
        for j, subscribers in enumerate(rows):
            ks = news[held[:, j]]
            lam = dict(zip(ks.tolist(), self.crowd.lam[ks].tolist(), strict=True))
            report = LoadReport(self.reports, self.reports == 1, subscribers, gone[j], lam)
            orders: ReportReply = self._tell(ev.Report(None, name(j), self.tokens[j], report), now)
            found += [
                Order(number(each.subscriber), j, number(each.broker), self.why.get(each.subscriber, ""))
                for each in orders.moves
            ]
        return found

    def tick(self, now: float) -> None:
        self._tell(ev.Tick(), now - 1.0)
        self._tell(ev.Tick(), now)

    def _tell(self, event: ev.Event, now: float) -> Any:
        answer: Any = None
        for instruction in self.state.handle(event, now):
            match instruction:
                case ev.Reply():
                    answer = instruction.body
                case ev.Refuse():
                    raise instruction.error
                case ev.Note(kind="move", subscriber=who) if instruction.text.startswith("accepted: "):
                    self.why[who] = instruction.text.removeprefix("accepted: ")
        return answer


def name(j: int) -> str:
    """Brokers sort by name as by number."""
    return f"broker-{j:05}"


def person(u: int) -> str:
    return f"person-{u:08}"


def number(name: str) -> int:
    return int(name.rpartition("-")[2])
