"""A simulated machine that runs one broker of the overlay."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tocsin.overlay.content import events as ev
from tocsin.overlay.content.codec import Codec
from tocsin.overlay.content.instructions import Instruction, Send
from tocsin.overlay.content.messages import Frame, Message
from tocsin.overlay.content.router import Router
from tocsin.simulation.network.network import Network
from tocsin.simulation.network.node import Node

#: Seconds between two ticks.
TICK = 0.25


class BrokerNode(Node):
    """``others``: all machines, by name. ``make``: the router of a machine that starts, with its epoch.

    ``wanted``: the neighbours it connects to whenever it starts. ``on_sent`` and ``on_done`` see what it does."""

    def __init__(
        self,
        name: str,
        network: Network,
        others: dict[str, BrokerNode],
        make: Callable[[str, int], Router],
        rng: Random,
    ) -> None:
        super().__init__(name, network)
        self.others, self._make, self._rng = others, make, rng
        self.router = make(name, 0)
        self._codec = Codec()
        self.wanted: list[str] = []
        self.epoch = 0
        self.since = 0.0
        self.on_sent: list[Callable[[str, str, Message], None]] = []
        self.on_done: list[Callable[[BrokerNode, Instruction], None]] = []

    def boot(self) -> None:
        super().boot()
        self.epoch += 1
        self.since = self.clock.now
        self.router = self._make(self.name, self.epoch)
        for neighbour in self.wanted:
            self.event(ev.Connect(neighbour))
        self.later(self._rng.random() * TICK, self._tick)

    def _tick(self) -> None:
        self.event(ev.Tick())
        self.later(TICK, self._tick)

    def event(self, event: ev.Event) -> None:
        for instruction in self.router.handle(event, self.clock.now):
            if isinstance(instruction, Send):
                self._send(instruction.target, instruction.message)
            else:
                if self.trace:
                    self.trace.say(self.name, shown(instruction))
                for each in self.on_done:
                    each(self, instruction)

    def _send(self, target: str, message: Message) -> None:
        if self.trace and not (isinstance(message, Frame) and message.body is None):
            self.trace.say(self.name, shown(message), target)
        for each in self.on_sent:
            each(self.name, target, message)
        node = self.others.get(target)
        if node is not None:
            self.network.send(self, node, node.received, self.name, self._codec.encode(message))

    def received(self, source: str, data: bytes) -> None:
        self.event(ev.Received(source, self._codec.decode(data)))


def shown(what: object) -> str:
    """A message or an instruction on one line."""
    body = getattr(what, "body", None)
    if body is None:
        return str(what)
    return f"{getattr(what, 'number', '')} {body}"
