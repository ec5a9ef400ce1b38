"""Brokers without a network: messages arrive at once, in the order in which they were sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random
from typing import Any

from tocsin.overlay.content import events as ev
from tocsin.overlay.content.codec import Codec
from tocsin.overlay.content.instructions import Deliver, Instruction, Send
from tocsin.overlay.content.messages import Frame, Message, Role
from tocsin.overlay.content.router import DEFAULTS, Router
from tocsin.overlay.content.settings import Settings

TICK = 0.25


class Loopback:
    """``sent``: (source, target, body) of all sequenced messages. ``broken``: pairs between which messages are lost.

    ``done``: (broker, instruction) of everything else; ``delivered``: (client, values) in order."""

    def __init__(self) -> None:
        self.routers: dict[str, Router] = {}
        self.now = 0.0
        self.sent: list[tuple[str, str, Any]] = []
        self.done: list[tuple[str, Instruction]] = []
        self.delivered: list[tuple[str, dict[str, Any]]] = []
        self.broken: set[frozenset[str]] = set()
        self._codec = Codec()

    def start(self, name: str, *, epoch: int = 1, pin: Role | None = None, settings: Settings = DEFAULTS) -> Router:
        """A broker of this name; an earlier one is gone."""
        self.routers[name] = Router(name, epoch=epoch, rng=Random(name), settings=settings, pin=pin)
        return self.routers[name]

    def connect(self, links: Iterable[tuple[str, str]]) -> None:
        for one, other in links:
            self.event(one, ev.Connect(other))

    def event(self, name: str, event: ev.Event) -> list[Instruction]:
        """Handles it and all that follows from it; what the broker itself does for others than its neighbours."""
        waiting: deque[tuple[str, ev.Event]] = deque([(name, event)])
        first = len(self.done)
        while waiting:
            name, event = waiting.popleft()
            for each in self.routers[name].handle(event, self.now):
                if isinstance(each, Send):
                    if isinstance(each.message, Frame) and each.message.body is not None:
                        self.sent.append((name, each.target, each.message.body))
                    if each.target in self.routers and frozenset((name, each.target)) not in self.broken:
                        waiting.append((each.target, ev.Received(name, self._over_the_wire(each.message))))
                    continue
                self.done.append((name, each))
                if isinstance(each, Deliver):
                    self.delivered.append((each.client, dict(each.publication.values)))
        return [each for _, each in self.done[first:]]

    def _over_the_wire(self, message: Message) -> Message:
        return self._codec.decode(self._codec.encode(message))

    def run(self, seconds: float) -> None:
        """Time passes for all brokers."""
        until = self.now + seconds
        while self.now < until:
            self.now += TICK
            for name in list(self.routers):
                self.event(name, ev.Tick())
