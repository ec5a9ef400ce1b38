"""Between the machines: how long it takes, what gets lost, and walls that nothing passes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct

from tocsin.broker.upstream.effects import Lost
from tocsin.simulation.network.clock import Clock
from tocsin.simulation.network.node import Node
from tocsin.simulation.network.process import Done, Question
from tocsin.simulation.network.trace import Trace


class Partition(Struct, eq=False):
    """Nothing passes between those inside and the others; ``one_way``: only what comes from inside is held up."""

    inside: frozenset[str]
    one_way: bool = False


class LinkQuality(Struct):
    """How the network is at the moment. ``loss`` and ``twice`` are chances; times are in seconds."""

    nearest: float = 0.001
    furthest: float = 0.03
    jitter: float = 0.2
    loss: float = 0.0
    twice: float = 0.0


#: A server's way of dealing with a request: it answers by calling ``done``, now or later.
Serve = Callable[[Any, Done], None]


class Network:
    """Requests over HTTP are here; connections that stay are in connection.py."""

    def __init__(self, clock: Clock, trace: Trace, rng: Random) -> None:
        self.clock, self.trace, self.rng = clock, trace, rng
        self.weather = LinkQuality()
        self.walls: list[Partition] = []
        self.stalled: list[Callable[[], None]] = []
        self._bases: dict[tuple[str, str], float] = {}

    # -- ways

    def reaches(self, source: str, target: str) -> bool:
        for wall in self.walls:
            inside = source in wall.inside
            if inside != (target in wall.inside) and (inside or not wall.one_way):
                return False
        return True

    def delay(self, source: str, target: str) -> float:
        """Two machines are as far from each other as they are, and each message takes a little longer or less."""
        pair = (source, target) if source < target else (target, source)
        base = self._bases.get(pair)
        if base is None:
            base = self._bases[pair] = self.rng.uniform(self.weather.nearest, self.weather.furthest)
        found = base * (1 + self.weather.jitter * self.rng.random())
        if self.weather.loss and self.rng.random() < self.weather.loss:
            found += self.rng.uniform(0.2, 1.0)  # it had to be sent again
        return found

    def build(self, wall: Partition) -> None:
        self.walls.append(wall)

    def tear_down(self, wall: Partition) -> None:
        if wall in self.walls:
            self.walls.remove(wall)
        self.flow()

    def flow(self) -> None:
        """What was held up finds its way again, if it can."""
        stalled, self.stalled = self.stalled, []
        for again in stalled:
            again()

    # -- requests

    def ask(self, source: Node, target: Node, serve: Serve, body: Any, timeout: float) -> Question:
        return lambda done: _Call(self, source, target, serve, body, timeout, done).send()


class _Call:
    """One request and its answer. Nobody knows of a lost answer whether the request was dealt with."""

    def __init__(
        self, network: Network, source: Node, target: Node, serve: Serve, body: Any, timeout: float, done: Done
    ) -> None:
        self.network, self.source, self.target = network, source, target
        self.serve, self.body, self.done = serve, body, done
        self.deadline = network.clock.now + timeout
        self.over = False

    def send(self) -> None:
        network, weather = self.network, self.network.weather
        if self._lost(self.source, self.target):
            self._miss()
            return
        delay = network.delay(self.source.name, self.target.name)
        network.clock.after(delay, self._arrive)
        if weather.twice and network.rng.random() < weather.twice:
            network.clock.after(delay + network.rng.uniform(0.0, 1.5), self._arrive_again)

    def _lost(self, source: Node, target: Node) -> bool:
        network = self.network
        loss = network.weather.loss
        return not network.reaches(source.name, target.name) or bool(loss and network.rng.random() < loss)

    def _miss(self) -> None:
        self.network.clock.at(self.deadline, self._end, None, Lost("no answer in time"))

    def _arrive(self) -> None:
        if self.target.up:
            self.target.take(self.serve, self.body, self._answer)
            if not self.over:
                self._miss()
        elif self.target.silent:
            self._miss()
        else:
            self._end(None, Lost("connection refused"))

    def _arrive_again(self) -> None:
        if self.target.up:
            self.target.take(self.serve, self.body, lambda value, error: None)

    def _answer(self, value: Any, error: Exception | None) -> None:
        if self._lost(self.target, self.source):
            self._miss()
        else:
            delay = self.network.delay(self.target.name, self.source.name)
            self.network.clock.after(delay, self._end, value, error)
        self.over = True

    def _end(self, value: Any, error: Exception | None) -> None:
        done, self.done = self.done, _nobody
        done(value, error)


def _nobody(value: Any, error: Exception | None) -> None:
    pass
