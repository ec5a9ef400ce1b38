"""A broker's heartbeat: the production protocol over the simulated network."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.broker.core.events import Event, Ordered
from tocsin.broker.upstream.heartbeat import Heartbeat, RegisterBroker, registration
from tocsin.simulation.network.process import Done, Process, Request
from tocsin.wire.join import Join
from tocsin.wire.reports import Registered, ReportReply

if TYPE_CHECKING:
    from tocsin.simulation.nodes.broker import BrokerNode
    from tocsin.simulation.nodes.coordinator import CoordinatorNode

TIMEOUT = 10.0


class Reporter:
    def __init__(self, node: BrokerNode, coordinator: CoordinatorNode, rng: Random) -> None:
        self.node, self.coordinator = node, coordinator
        about = registration(node.config, node.url, f"life {node.life} of {node.name}", node.url)
        about = msgspec.structs.replace(about, join=Join(f"key of {node.name}", 0.0, ""))
        load_reports, now = node.state.load_reports, lambda: node.clock.now
        self.heartbeat = Heartbeat(load_reports, about, node.tickets, self._handle, now, rng)

    def start(self) -> None:
        Process(self.node, self.heartbeat.run(), self._perform)

    def leave(self) -> None:
        """Tries once and does not wait for the answer."""
        if self.heartbeat.token:
            self._ask(self.coordinator.leave, (self.node.name, self.heartbeat.token), None)(lambda value, error: None)

    def _handle(self, event: Event) -> None:
        if not isinstance(event, Ordered):
            self.node.handle(event)
            return
        if self.node.trace:
            self.node.trace.say(self.node.name, _said(event.orders), "orders")
        self.node.handle(event)
        for order in event.orders.migrations:
            self.node.moving(order)

    def _perform(self, effect: Any) -> Request:
        if isinstance(effect, RegisterBroker):
            return self._ask(self.coordinator.register, msgspec.json.encode(effect.registration), Registered)
        body = (self.node.name, effect.token, msgspec.json.encode(effect.report))
        return self._ask(self.coordinator.report, body, ReportReply)

    def _ask(self, serve: Callable[[Any, Done], None], body: Any, kind: type[Any] | None) -> Request:
        """Answers are JSON."""
        question = self.node.network.request(self.node, self.coordinator, serve, body, TIMEOUT)

        def asked(done: Done) -> None:
            question(
                lambda value, error: done(
                    msgspec.json.decode(value, type=kind) if error is None and kind is not None else value, error
                )
            )

        return asked


def _said(orders: ReportReply) -> str:
    migrations = [f"{each.subscriber} is to migrate to {each.broker}" for each in orders.migrations]
    return "; ".join([*migrations, *[f"{name} is to be dropped" for name in orders.drop]])
