"""A broker's reports to the coordinator, step by step as ``tocsin.broker.reporting`` sends them over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.broker.events import Ordered
from tocsin.simulation.process import Done, Lost, Process, Question, Refused, Work
from tocsin.wire.reports import Orders, Registered, Registration

if TYPE_CHECKING:
    from tocsin.simulation.broker import BrokerNode
    from tocsin.simulation.coordinator import CoordinatorNode

MIN_BACKOFF, MAX_BACKOFF = 0.2, 5.0
TIMEOUT = 10.0

_registered = msgspec.json.Decoder(Registered)
_orders = msgspec.json.Decoder(Orders)


class Reporter:
    def __init__(self, node: BrokerNode, coordinator: CoordinatorNode, rng: Random) -> None:
        self.node, self.coordinator, self.rng = node, coordinator, rng
        self.token = ""

    def start(self) -> None:
        Process(self.node, self._run())

    def leave(self) -> None:
        """One try, and nobody waits for the answer."""
        if self.token:
            self._ask(self.coordinator.leave, (self.node.name, self.token))(lambda value, error: None)

    def _ask(self, serve: Callable[[Any, Done], None], body: Any) -> Question:
        return self.node.network.ask(self.node, self.coordinator, serve, body, TIMEOUT)

    def _run(self) -> Work:
        failures = 0
        while True:
            try:
                about = yield from self._register()
                failures = 0
                yield from self._report(about)
            except (Lost, Refused):
                failures += 1
            longest = min(MAX_BACKOFF, MIN_BACKOFF * 2.0 ** min(failures, 20))
            yield longest * self.rng.uniform(0.5, 1.0)

    def _register(self) -> Work:
        config = self.node.config
        place = Registration(
            config.name,
            self.node.url,
            config.secret,
            f"identity of {config.name}",
            config.capacity,
            config.limits.connections,
        )
        about = _registered.decode((yield self._ask(self.coordinator.register, msgspec.json.encode(place))))
        self.node.wicket.key = bytes.fromhex(about.key)
        self.token = about.token
        return about

    def _report(self, about: Registered) -> Work:
        node, number, full = self.node, 0, True
        while True:
            number += 1
            report = node.state.changes(number, node.clock.now, full=full)
            body = (node.name, about.token, msgspec.json.encode(report))
            try:
                orders = _orders.decode((yield self._ask(self.coordinator.report, body)))
            except (Lost, Refused):
                node.state.put_back(report)
                raise
            full = orders.full
            if orders.moves or orders.drop:
                if node.trace:
                    node.trace.say(node.name, _said(orders), "orders")
                node.handle(Ordered(orders))
                for order in orders.moves:
                    node.moving(order)
            yield 0.0 if full else about.interval


def _said(orders: Orders) -> str:
    moves = [f"{each.subscriber} is to move to {each.broker}" for each in orders.moves]
    return "; ".join([*moves, *[f"{name} is to be dropped" for name in orders.drop]])
