"""A broker's state machine alone: events in, instructions taken apart for the test."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.balancing.peer_balancer import Means
from tocsin.broker.core.events import Line
from tocsin.broker.core.state import BrokerState
from tocsin.config import BrokerConfig, BrokerLimits
from tocsin.wire import messages as wire
from tocsin.wire.messages import decode_answers
from tocsin.wire.position import Position

T = TypeVar("T")


def line(subscription: int, execution: int, text: bytes = b"[1]") -> Line:
    return Line(subscription, execution, 1, text)


def at(execution: int, epoch: int = 0) -> Position:
    return Position(epoch, execution)


class BrokerHarness:
    """``sent`` keeps the messages to each peer, ``done`` every other instruction, until the test takes them. The store
    of users answers at once while ``stores``."""

    def __init__(self, limits: BrokerLimits | None = None, **settings: Any) -> None:
        settings.setdefault("anonymous", "all")
        settings.setdefault("silence", 3 * (settings.get("heartbeat") or 25.0))
        means = Means(lambda subscriber, seconds: f"ticket for {subscriber}", Random(1), "0")
        config = BrokerConfig(name="b", limits=limits or BrokerLimits(), **settings)
        self.state = BrokerState(config, means=means)
        self.now = 0.0
        self.sent: dict[Any, list[Any]] = {}
        self.done: list[Any] = []
        self.stores = True

    def handle(self, event: ev.Event) -> list[do.Instruction]:
        out = self.state.handle(event, self.now)
        for it in out:
            if isinstance(it, do.Send):
                found = [message for text in it.messages for message in decode_answers(text)]
                for peer in it.peers:
                    self.sent.setdefault(peer, []).extend(found)
            else:
                self.done.append(it)
        for it in out if self.stores else ():
            if isinstance(it, do.Remember):
                self.handle(ev.Stored([ev.Remembered(it.user, it.subscription)]))
        return out

    def took(self, peer: Any) -> list[Any]:
        return self.sent.pop(peer, [])

    def did(self, kind: type[T]) -> list[T]:
        """Removes and returns the instructions of this kind."""
        found = [it for it in self.done if isinstance(it, kind)]
        self.done = [it for it in self.done if not isinstance(it, kind)]
        return found

    # -- events

    def open(self, *peers: Any) -> None:
        """Connects the peers and discards their welcome."""
        for peer in peers:
            self.handle(ev.Opened(peer, "address"))
            self.say(peer, wire.Hello(0))
            self.took(peer)

    def log_in(self, peer: Any, user: str, *durable: wire.DurableSubscription) -> None:
        self.handle(ev.Opened(peer, "address"))
        self.say(peer, wire.Hello(0, "token"))
        self.handle(ev.Authenticated(peer, user, list(durable)))
        self.did(do.Authenticate)

    def say(self, peer: Any, *messages: Any) -> list[do.Instruction]:
        return self.handle(ev.Received(peer, list(messages)))

    def subscribe(
        self, peer: Any, kind: str = "fire", after: int | None = None, previous_id: int | None = None, id: int = 1
    ) -> None:
        self.say(peer, wire.Subscribe(id, "C", [kind], after, previous_id))

    def confirm(self, *outcomes: Any, position: int = 0) -> None:
        """The data cluster's answer to a Subscribe."""
        self.handle(ev.Subscribed("C", list(outcomes), at(position)))

    def subscribed(self, peer: Any, id: int = 7, position: int = 0, kind: str = "fire") -> None:
        """Subscribes, confirms for the data cluster if it received a request, and goes live."""
        self.subscribe(peer, kind)
        if self.did(do.Subscribe):
            self.confirm(id, position=position)
        self.took(peer)

    def executed(self, execution: int, *subscriptions: int) -> None:
        """Notifies the broker of an execution and answers its pull."""
        self.handle(ev.Notified("C", execution))
        self.did(do.Pull)
        self.handle(ev.Pulled("C", at(execution), [line(id, execution) for id in subscriptions]))

    def tick(self, seconds: float = 1.0) -> list[do.Instruction]:
        self.now += seconds
        return self.handle(ev.Tick())

    def close(self, peer: Any) -> None:
        self.handle(ev.Closed(peer))


def executions(messages: list[Any]) -> list[int]:
    return [message.execution for message in messages if isinstance(message, wire.Notify)]
