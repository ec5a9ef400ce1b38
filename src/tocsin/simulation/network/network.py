"""The network between the machines: delays, losses and partitions."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct

from tocsin.broker.upstream.effects import Lost
from tocsin.simulation.network.clock import Clock
from tocsin.simulation.network.node import Node
from tocsin.simulation.network.process import Done, Request
from tocsin.simulation.network.trace import Trace


class Partition(Struct, eq=False):
    """Nothing passes between the nodes inside and the others; ``one_way``: only messages from inside are held up."""

    inside: frozenset[str]
    one_way: bool = False


class LinkQuality(Struct):
    """``loss`` and ``twice`` (duplication) are probabilities; times are in seconds."""

    nearest: float = 0.001
    furthest: float = 0.03
    jitter: float = 0.2
    loss: float = 0.0
    twice: float = 0.0


#: Handles a request on a server, and answers by calling ``done``, now or later.
Serve = Callable[[Any, Done], None]


class Network:
    """Messages and HTTP requests; WebSocket connections are in connection.py."""

    def __init__(self, clock: Clock, trace: Trace, rng: Random) -> None:
        self.clock, self.trace, self.rng = clock, trace, rng
        self.quality = LinkQuality()
        self.partitions: list[Partition] = []
        self.stalled: list[Callable[[], None]] = []
        self._bases: dict[tuple[str, str], float] = {}

    # -- links

    def reaches(self, source: str, target: str) -> bool:
        for partition in self.partitions:
            inside = source in partition.inside
            if inside != (target in partition.inside) and (inside or not partition.one_way):
                return False
        return True

    def delay(self, source: str, target: str) -> float:
        """Each pair of machines has a base delay; every message adds jitter."""
        pair = (source, target) if source < target else (target, source)
        base = self._bases.get(pair)
        if base is None:
            base = self._bases[pair] = self.rng.uniform(self.quality.nearest, self.quality.furthest)
        found = base * (1 + self.quality.jitter * self.rng.random())
        if self.quality.loss and self.rng.random() < self.quality.loss:
            found += self.rng.uniform(0.2, 1.0)  # it was sent again
        return found

    def remove_partition(self, partition: Partition) -> None:
        if partition in self.partitions:
            self.partitions.remove(partition)
        self.retry_stalled()

    def retry_stalled(self) -> None:
        """Connections that were held up try again."""
        stalled, self.stalled = self.stalled, []
        for again in stalled:
            again()

    # -- messages

    def send(self, source: Node, target: Node, deliver: Callable[..., object], *args: Any) -> None:
        """One message without an answer: it may be lost, late, or arrive twice."""
        quality, rng = self.quality, self.rng
        if not self.reaches(source.name, target.name) or (quality.loss and rng.random() < quality.loss):
            return
        delay = self.delay(source.name, target.name)
        self.clock.after(delay, target.take, deliver, *args)
        if quality.twice and rng.random() < quality.twice:
            self.clock.after(delay + rng.uniform(0.0, 1.5), target.take, deliver, *args)

    # -- requests

    def request(self, source: Node, target: Node, serve: Serve, body: Any, timeout: float) -> Request:
        return lambda done: _Call(self, source, target, serve, body, timeout, done).send()


class _Call:
    """One request and its answer. If the answer is lost, the sender cannot know whether the request was handled."""

    def __init__(
        self, network: Network, source: Node, target: Node, serve: Serve, body: Any, timeout: float, done: Done
    ) -> None:
        self.network, self.source, self.target = network, source, target
        self.serve, self.body, self.done = serve, body, done
        self.deadline = network.clock.now + timeout
        self.over = False

    def send(self) -> None:
        network, quality = self.network, self.network.quality
        if self._lost(self.source, self.target):
            self._miss()
            return
        delay = network.delay(self.source.name, self.target.name)
        network.clock.after(delay, self._arrive)
        if quality.twice and network.rng.random() < quality.twice:
            network.clock.after(delay + network.rng.uniform(0.0, 1.5), self._arrive_again)

    def _lost(self, source: Node, target: Node) -> bool:
        network = self.network
        loss = network.quality.loss
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
        done, self.done = self.done, _ignore
        done(value, error)


def _ignore(value: Any, error: Exception | None) -> None:
    pass
