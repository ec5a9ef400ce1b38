"""Decides in a flow simulation without a coordinator: each broker runs the host that it runs in production.

The coordinator only places newcomers. Messages between brokers arrive within the tick, and are counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random

import msgspec
import numpy as np

from tocsin.balancing.brokers.broker_load import LOAD, BrokerLoad
from tocsin.balancing.brokers.strategies import make, settings_of
from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.host.host import Event, Execute, Executed, Host, Received, Send, Tick
from tocsin.balancing.model.arrays import Ints, Longs
from tocsin.config import CoordinatorConfig
from tocsin.simulation.flow.crowd import Crowd
from tocsin.simulation.flow.decision_makers import Order, Parts, name, number
from tocsin.simulation.flow.flow import Decide
from tocsin.simulation.flow.workload import Workload


class BrokerOfCrowd:
    """The subscribers of one broker."""

    def __init__(self, j: int, crowd: Crowd, leaving: set[int]) -> None:
        self.j, self.crowd, self.leaving = j, crowd, leaving
        self.now = 0.0

    def receivers(self) -> Iterable[tuple[int, int]]:
        column = self.crowd.n[:, self.j]
        ks = np.flatnonzero(column)
        return zip(ks.tolist(), column[ks].tolist(), strict=True)

    def rate(self, k: int) -> float:
        return float(self.crowd.lam[k])

    def count(self) -> int:
        return int(self.crowd.count[self.j])

    def movable(self, *, everyone: bool = False) -> Sequence[str]:
        here = np.flatnonzero(self.crowd.at == self.j).tolist()
        return [str(u) for u in here if u not in self.leaving]

    def subscriptions(self, name: str) -> Collection[int] | None:
        u = int(name)
        if int(self.crowd.at[u]) != self.j or u in self.leaving:
            return None
        found: list[int] = self.crowd.rows[u].tolist()
        return found

    def refuses(self, count: int) -> str | None:
        return None


class Peers:
    """``messages`` and ``bytes``: what brokers sent each other to balance."""

    def __init__(
        self,
        strategy: str,
        given: Mapping[str, float],
        config: CoordinatorConfig,
        work: Workload,
        crowd: Crowd,
        rng: Random,
    ) -> None:
        self.places = Parts(msgspec.structs.replace(config, strategy="", settings={}), work, crowd, rng)
        self.messages = self.bytes = 0
        self._leaving: set[int] = set()
        self._views = [BrokerOfCrowd(j, crowd, self._leaving) for j in range(work.brokers)]
        self._orders: list[Order] = []
        self._executing: dict[tuple[int, str, int], set[int]] = {}
        seed, names = rng.random(), [name(j) for j in range(work.brokers)]
        cool_down = (settings_of(strategy) | dict(given))["cool_down"]
        self.hosts: list[Host] = []
        for j, view in enumerate(self._views):
            model = BrokerLoad(
                names[j], view, lambda subscriber, seconds: "ticket", float(work.capacity[j]), cool_down=cool_down
            )
            host = Host(names[j], model, make(strategy, given), Random(f"{seed} {j}"), {ActionKind.MIGRATE})
            host.neighbours = [each for each in names if each != names[j]]
            self.hosts.append(host)
        self._models = [host.model for host in self.hosts]

    def place(self, us: Longs, now: float) -> Ints:
        return self.places.place(us, now)

    def report(self, changed: Longs, left: list[tuple[int, int]], news: Longs, now: float) -> list[Order]:
        self.places.report(changed, left, news, now)
        arrived = {u for u, _ in left}
        self._leaving -= arrived
        ended = []
        for key, us in list(self._executing.items()):
            us -= arrived
            if not us:
                del self._executing[key]
                ended.append(key)
        self._run([(j, Executed(session, position)) for j, session, position in ended], now)
        orders, self._orders = self._orders, []
        return orders

    def tick(self, now: float) -> None:
        self._run([(j, Tick()) for j in range(len(self.hosts))], now)

    def _run(self, events: Iterable[tuple[int, Event]], now: float) -> None:
        queue = deque(events)
        for view, model in zip(self._views, self._models, strict=True):
            view.now = now
            assert isinstance(model, BrokerLoad)
            model.tick()
        while queue:
            j, event = queue.popleft()
            for output in self.hosts[j].handle(event, now):
                if isinstance(output, Send):
                    assert isinstance(output.to, str)
                    self.messages += 1
                    self.bytes += len(msgspec.json.encode(output.message))
                    queue.append((number(output.to), Received(self.hosts[j].peer, output.message)))
                else:
                    self._execute(j, output)

    def _execute(self, j: int, it: Execute) -> None:
        us = {int(each) for each in it.permits}
        self._leaving |= us
        self._executing[j, it.session, it.position] = us
        target = number(it.action.target)
        self._orders += [Order(u, j, target, it.action.reason) for u in sorted(us)]

    def load(self, j: int) -> float:
        """As its broker measures it."""
        return self._models[j].measure(LOAD)


def among_brokers(strategy: str, made: list[Peers] | None = None, **given: float) -> Decide:
    """``made`` gets the decision maker, which has counted messages."""

    def decide(config: CoordinatorConfig, work: Workload, crowd: Crowd, rng: Random) -> Peers:
        found = Peers(strategy, given, config, work, crowd, rng)
        if made is not None:
            made.append(found)
        return found

    return decide
