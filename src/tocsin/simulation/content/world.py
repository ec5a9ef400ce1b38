"""The brokers of an overlay, their network and their clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

from tocsin.content import Advertisement
from tocsin.overlay.content import events as ev
from tocsin.overlay.content.instructions import Instruction
from tocsin.overlay.content.messages import Frame, Message, Publication
from tocsin.overlay.content.router import Router
from tocsin.simulation.content import scenario as drawn
from tocsin.simulation.content.client import SimulatedClient
from tocsin.simulation.content.node import BrokerNode
from tocsin.simulation.content.scenario import Scenario, broker_name
from tocsin.simulation.content.witness import Witness
from tocsin.simulation.network.clock import Clock
from tocsin.simulation.network.network import LinkQuality, Network
from tocsin.simulation.network.trace import Trace
from tocsin.simulation.random_streams import RandomStreams


class World:
    """``tree``: the links that there should be, who connects first, and since when each is there.

    ``passed``: (publication, from, to) of all publications on links since it was emptied last."""

    def __init__(self, scenario: Scenario, chance: RandomStreams, trace: Callable[[Clock], Trace] = Trace) -> None:
        self.scenario, self.chance = scenario, chance
        self.clock = Clock()
        self.trace = trace(self.clock)
        self.network = Network(self.clock, self.trace, chance.of("network"))
        self.witness = Witness(self)
        self.nodes: dict[str, BrokerNode] = {}
        self.clients: dict[str, SimulatedClient] = {}
        self.tree: dict[tuple[str, str], float] = {}
        self.passed: list[tuple[Publication, str, str]] = []
        self.gone: set[str] = set()
        self._rng = chance.of("application")
        self._ids = 0
        for number in range(scenario.brokers + scenario.spare):
            name = broker_name(number)
            node = BrokerNode(name, self.network, self.nodes, self._router, chance.of(f"ticks of {name}"))
            node.on_done.append(self._done)
            node.on_sent.append(self._sent)
            self.nodes[name] = node

    def _router(self, name: str, epoch: int) -> Router:
        rng = self.chance.of(f"router {name} {epoch}")
        return Router(name, epoch=epoch, rng=rng, settings=self.scenario.settings, pin=self.scenario.pins.get(name))

    def _done(self, node: BrokerNode, instruction: Instruction) -> None:
        client = self.clients.get(getattr(instruction, "client", ""))
        if client is not None:
            client.done(node, instruction)

    def _sent(self, source: str, target: str, message: Message) -> None:
        if isinstance(message, Frame) and isinstance(message.body, Publication):
            self.passed.append((message.body, source, target))

    # -- brokers

    @property
    def up(self) -> list[BrokerNode]:
        return [node for node in self.nodes.values() if node.up]

    def any_broker(self) -> BrokerNode | None:
        nodes = [node for node in self.up if node.name not in self.gone]
        return self._rng.choice(nodes) if nodes else None

    def start(self) -> None:
        for number in range(self.scenario.brokers):
            self.nodes[broker_name(number)].boot()
        for one, other in self.scenario.links:
            self.clock.at(self._rng.uniform(0.0, 1.0), self.link, one, other)

    def link(self, one: str, other: str) -> None:
        self.tree[one, other] = self.clock.now
        self.nodes[one].wanted.append(other)
        if self.nodes[one].up:
            self.nodes[one].event(ev.Connect(other))

    def join(self, node: BrokerNode, neighbour: BrokerNode) -> None:
        node.boot()
        self.link(node.name, neighbour.name)

    def kill(self, node: BrokerNode) -> None:
        self.witness.broker_ends(node.name)
        node.die(silent=True)

    def leave(self, node: BrokerNode) -> None:
        """For good: its neighbours' operators end their links too."""
        self.witness.broker_ends(node.name)
        self.gone.add(node.name)
        for client in self.clients.values():
            if node in (client.home, client.next):
                client.relocate()
        node.event(ev.Leave())
        for pair in [pair for pair in self.tree if node.name in pair]:
            del self.tree[pair]
            other = self.nodes[pair[0] if pair[1] == node.name else pair[1]]
            if node.name in other.wanted:
                other.wanted.remove(node.name)
                if other.up and node.name in other.router.links.all:
                    other.event(ev.Disconnect(node.name))
        node.die()

    def linked(self, name: str) -> list[str]:
        return [other if one == name else one for one, other in self.tree if name in (one, other)]

    def path(self, begin: str, end: str) -> tuple[str, ...] | None:
        """The brokers from one to another over the links that there should be."""
        before: dict[str, str] = {begin: ""}
        waiting = deque([begin])
        while waiting:
            name = waiting.popleft()
            for other in self.linked(name):
                if other not in before:
                    before[other] = name
                    waiting.append(other)
        if end not in before:
            return None
        found = [end]
        while before[found[-1]]:
            found.append(before[found[-1]])
        return tuple(reversed(found))

    def beyond(self, source: str, target: str) -> set[str]:
        """The brokers that one reaches over its link to another."""
        found, waiting = {source, target}, [target]
        while waiting:
            for other in self.linked(waiting.pop()):
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        return found - {source}

    def ready(self, name: str) -> float:
        """Since when a broker is up."""
        node = self.nodes[name]
        return node.since if node.up else float("inf")

    def changed(self, path: tuple[str, ...]) -> float:
        """When the latest link of a path was made."""
        pairs = {*pairwise(path), *pairwise(path[::-1])}
        return max((since for pair, since in self.tree.items() if pair in pairs), default=0.0)

    def heal(self) -> None:
        self.network.quality = LinkQuality()
        self.network.partitions.clear()
        for node in self.nodes.values():
            node.busy_until = min(node.busy_until, self.clock.now)
            if not node.up and node.life and node.name not in self.gone:
                node.boot()
        if self.trace:
            self.trace.say("world", "all faults end")

    # -- clients

    def _id(self, kind: str) -> str:
        self._ids += 1
        return f"{kind}{self._ids}"

    def add_client(self, kind: ev.Kind, rng: Random) -> SimulatedClient:
        name = self._id("p" if kind == "publisher" else "s")
        client = self.clients[name] = SimulatedClient(name, kind, self, control=rng.random() < 0.1)
        self.announce(client, rng)
        client.look_for()
        return client

    def announce(self, client: SimulatedClient, rng: Random) -> None:
        publisher = client.kind == "publisher"
        what: Any = drawn.advertisement(rng) if publisher else drawn.condition(rng)
        client.announce(self._id("ad" if publisher else "sub"), what)

    def publish(self) -> None:
        """Each publisher, once under each of its advertisements."""
        for client in list(self.clients.values()):
            for id, what in list(client.wanted.items()):
                if isinstance(what, Advertisement):
                    client.publish(id, drawn.values(self._rng, what))

    def publish_every(self, seconds: float, until: float) -> None:
        self.publish()
        if self.clock.now + seconds < until:
            self.clock.after(seconds, self.publish_every, seconds, until)
