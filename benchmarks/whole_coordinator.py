"""Decides in a flow simulation with the coordinator's whole state machine, which gets reports as brokers send them.

It gets the same input as ``tocsin.simulation.flow.decision_makers.Parts`` and gives the same output, much more slowly.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from tocsin.balancing.model.arrays import Ints, Longs
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.state import CoordinatorState
from tocsin.simulation.flow.crowd import Crowd
from tocsin.simulation.flow.decision_makers import Order, name, number
from tocsin.simulation.flow.workload import Workload
from tocsin.wire.reports import BrokerRequest, LoadReport, Registration, ReportReply


class Whole:
    """The state machine, driven by its events: it knows of subscribers only what brokers report."""

    def __init__(self, config: CoordinatorConfig, work: Workload, crowd: Crowd, rng: Random) -> None:
        self.work, self.crowd = work, crowd
        nonces = iter(range(2**62))
        self.state = CoordinatorState(config, b"simulated", rng, lambda: 0.0, lambda: str(next(nonces)))
        self._intern()
        self.reports = 0
        self.tokens = [self._handle(ev.Register(None, self._registration(j)), 0.0).token for j in range(work.brokers)]
        self.reasons: dict[str, str] = {}
        nothing = np.empty(0, dtype=np.int64)
        self.report(nothing, [], nothing, 0.0)

    def _intern(self) -> None:
        """Use the numbers of the true load, so that ties are broken alike."""
        model = self.state.model
        for u in range(self.work.subscribers):
            model.load.join(model.subscribers.number(person(u)))
        for k in range(self.work.backs):
            model.load.rate(model.subscriptions.number(k), 0.0)

    def _registration(self, j: int) -> Registration:
        lat, lon = self.work.brokers_at[j].tolist()
        return Registration(name(j), f"ws://{name(j)}", capacity=float(self.work.capacity[j]), lat=lat, lon=lon)

    def place(self, us: Longs, now: float) -> Ints:
        found = np.empty(len(us), dtype=np.int32)
        for i, u in enumerate(us.tolist()):
            lat, lon = self.work.people_at[u].tolist()
            found[i] = number(self._handle(ev.Place(None, BrokerRequest(person(u), lat, lon)), now).broker)
        return found

    def report(self, changed: Longs, left: list[tuple[int, int]], news: Longs, now: float) -> list[Order]:
        self.reports += 1
        held = self.crowd.n[news] > 0
        held[:, 0] |= ~held.any(axis=1)  # rates have to be known before the first subscriber needs them
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
            reply: ReportReply = self._handle(ev.Report(None, name(j), self.tokens[j], report), now)
            found += [
                Order(number(each.subscriber), j, number(each.broker), self.reasons.get(each.subscriber, ""))
                for each in reply.migrations
            ]
        return found

    def tick(self, now: float) -> None:
        self._handle(ev.Tick(), now - 1.0)
        self._handle(ev.Tick(), now)

    def _handle(self, event: ev.Event, now: float) -> Any:
        reply: Any = None
        for instruction in self.state.handle(event, now):
            match instruction:
                case ev.Reply():
                    reply = instruction.body
                case ev.Refuse():
                    raise instruction.error
                case ev.Note(kind="migration", subscriber=who) if instruction.text.startswith("accepted: "):
                    self.reasons[who] = instruction.text.removeprefix("accepted: ")
        return reply


def person(u: int) -> str:
    return f"person-{u:08}"
