"""A simulated machine that runs one peer of a key space."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tocsin.overlay.balancing.balanced_peer import BalancedPeer
from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace.context import Done, Send
from tocsin.overlay.keyspace.peer import Peer
from tocsin.simulation.network.network import Network
from tocsin.simulation.network.node import Node

#: Makes the host of a peer that starts.
Balance = Callable[[Peer], BalancedPeer]
#: Seconds between two ticks.
TICK = 0.25


class PeerNode(Node):
    """``others``: all machines, by name. ``make``: the peer of a machine that starts; ``balance``: its host, if any."""

    def __init__(
        self,
        name: str,
        network: Network,
        others: dict[str, PeerNode],
        make: Callable[[str], Peer],
        rng: Random,
        balance: Balance | None = None,
    ) -> None:
        super().__init__(name, network)
        self.others, self._make, self._rng = others, make, rng
        self.peer = make(name)
        self._balance = balance
        self.balanced: BalancedPeer | None = None
        self.sent = 0
        self._calls: dict[int, Callable[[Any, int], None]] = {}
        self._last_call = 0
        self.on_done: list[Callable[[Done], None]] = []

    def boot(self) -> None:
        super().boot()
        self.peer = self._make(self.name)
        self.balanced = None if self._balance is None else self._balance(self.peer)
        self._calls.clear()
        self.later(self._rng.random() * TICK, self._tick)

    def _tick(self) -> None:
        self.event(ev.Tick())
        self.later(TICK, self._tick)

    def event(self, event: ev.Event) -> None:
        machine = self.peer if self.balanced is None else self.balanced
        for instruction in machine.handle(event, self.clock.now):
            if isinstance(instruction, Send):
                self._send(instruction)
            elif instruction.call:
                done = self._calls.pop(instruction.call, None)
                if done is not None:
                    done(instruction.body, instruction.hops)
            else:
                for each in self.on_done:
                    each(instruction)

    def _send(self, send: Send) -> None:
        target = self.others.get(send.host)
        self.sent += 1
        if self.trace:
            self.trace.say(self.name, shown(send.message), send.host)
        if target is not None:
            self.network.send(self, target, target.received, self.name, send.message)

    def received(self, source: str, message: Any) -> None:
        self.event(ev.Received(source, message))

    def call(
        self, command: Callable[[int], ev.Event], done: Callable[[Any, int], None] = lambda body, hops: None
    ) -> None:
        """A command with a number of its own; ``done`` is not called if the machine dies before."""
        self._last_call += 1
        self._calls[self._last_call] = done
        self.take(self.event, command(self._last_call))

    @property
    def open_calls(self) -> int:
        return len(self._calls)


def shown(message: Any) -> str:
    body = getattr(message, "body", message)
    return f"{type(message).__name__} {type(body).__name__} {getattr(message, 'member', '')}".rstrip()
