"""Runs a workload: the brokers of the file with PEER's roles, its publishers and subscribers, and what they did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from tocsin.content import Advertisement, Condition
from tocsin.overlay.content import events as ev
from tocsin.overlay.content.instructions import Attached, Deliver, Instruction, Published, Redirect, Refused
from tocsin.overlay.content.messages import Frame, Message, Publication, PublicationId
from tocsin.overlay.content.router import Router
from tocsin.simulation.content.node import BrokerNode
from tocsin.simulation.content.workload import quotes
from tocsin.simulation.content.workload.capacity import CapacityBroker
from tocsin.simulation.content.workload.commands import (
    AddBroker,
    AddPublisher,
    AddSubscriber,
    ChangeRate,
    Command,
    Remove,
)
from tocsin.simulation.content.workload.quotes import FEED, Quotes
from tocsin.simulation.network.clock import Clock
from tocsin.simulation.network.network import Network
from tocsin.simulation.network.trace import Trace
from tocsin.simulation.random_streams import RandomStreams


class PublisherRow(Struct):
    """``rate`` in messages a minute, now."""

    name: str
    symbol: str
    rate: float
    broker: str = ""
    published: int = 0
    deliveries: int = 0


class SubscriberRow(Struct):
    """``hops``: links between brokers on the way, in all deliveries together; so is ``delay``, in seconds."""

    name: str
    condition: str
    broker: str = ""
    deliveries: int = 0
    hops: int = 0
    delay: float = 0.0


class BrokerRow(Struct):
    """``busy``: share of the time in which it matched."""

    name: str
    role: str
    publishers: int
    subscribers: int
    matched: int
    forwarded: int
    busy: float


class Result(Struct):
    seconds: float
    brokers: list[BrokerRow]
    publishers: list[PublisherRow]
    subscribers: list[SubscriberRow]
    refused: list[str] = field(default_factory=list)


class _Client:
    """Follows redirections: attached at the new broker before it leaves the old one."""

    def __init__(self, world: WorkloadWorld, name: str, kind: ev.Kind, what: Advertisement | Condition) -> None:
        self.world, self.name, self.kind, self.what = world, name, kind, what
        self.home = ""
        self.gone = False
        self._redirects = 0
        self._seen: dict[PublicationId, None] = {}

    def attach(self, broker: str) -> None:
        """At any broker, if this one has left."""
        node = self.world.nodes.get(broker) or next(iter(self.world.nodes.values()))
        if not self.gone and self.name not in node.router.clients.all:
            node.take(node.event, ev.Attach(self.name, self.kind, redirects=self._redirects))

    def leave(self) -> None:
        self.gone = True
        self._detach(self.home)

    def _detach(self, broker: str) -> None:
        node = self.world.nodes.get(broker)
        if node is not None and self.name in node.router.clients.all:
            node.take(node.event, ev.Detach(self.name))

    def done(self, node: BrokerNode, instruction: Instruction) -> None:
        if isinstance(instruction, Redirect):
            self._redirects += 1
            self.world.clock.after(0.01, self.attach, instruction.target)
        elif isinstance(instruction, Attached):
            make: Any = ev.AdvertiseFeed if self.kind == "publisher" else ev.SubscribeFeed
            node.event(make(self.name, self.name, FEED, self.what))
            old, self.home, self._redirects = self.home, node.name, 0
            # What is on its way to the old broker still arrives there.
            self.world.clock.after(1.0, self._detach, old)

    def is_new(self, id: PublicationId) -> bool:
        """Attached at two brokers for a moment, it may get a publication from both."""
        if id in self._seen:
            return False
        self._seen[id] = None
        if len(self._seen) > 1_000:
            del self._seen[next(iter(self._seen))]
        return True


class WorkloadWorld:
    def __init__(self, seed: int = 1, trace: Callable[[Clock], Trace] = Trace) -> None:
        self.chance = RandomStreams(seed)
        self.clock = Clock()
        self.network = Network(self.clock, trace(self.clock), self.chance.of("network"))
        self.nodes: dict[str, BrokerNode] = {}
        self.clients: dict[str, _Client] = {}
        self.publishers: dict[str, PublisherRow] = {}
        self.subscribers: dict[str, SubscriberRow] = {}
        self.refused: list[str] = []
        self._quotes: dict[str, Quotes] = {}
        self._changes: dict[str, int] = {}
        self._sources: dict[PublicationId, tuple[str, float]] = {}
        self._hops: dict[tuple[PublicationId, str], int] = {}
        self._publishing = ""

    # -- commands

    def apply(self, command: Command) -> None:
        if isinstance(command, AddBroker):
            self._add_broker(command)
        elif isinstance(command, AddPublisher):
            self.publishers[command.name] = PublisherRow(command.name, command.symbol, command.rate)
            self._quotes[command.name] = Quotes(command.symbol, self.chance.of(f"quotes {command.name}"))
            self._join(command.name, "publisher", quotes.advertisement(command.symbol), command.broker)
            self._set_rate(command.name, command.rate)
        elif isinstance(command, AddSubscriber):
            self.subscribers[command.name] = SubscriberRow(command.name, command.condition.to_sql())
            self._join(command.name, "subscriber", command.condition, command.broker)
        elif isinstance(command, ChangeRate):
            self._set_rate(command.name, command.rate)
        else:
            self._remove(command)

    def _add_broker(self, command: AddBroker) -> None:
        rng = self.chance.of(f"broker {command.name}")
        node = CapacityBroker(
            command.name,
            self.network,
            self.nodes,
            lambda name, epoch: Router(name, epoch=epoch, rng=rng),
            rng,
            cpu=command.cpu,
            bandwidth=command.bandwidth,
        )
        node.on_done.append(self._done)
        node.on_sent.append(self._sent)
        node.wanted = list(command.neighbours)
        self.nodes[command.name] = node
        node.boot()

    def _join(self, name: str, kind: ev.Kind, what: Advertisement | Condition, broker: str) -> None:
        self.clients[f"{kind} {name}"] = client = _Client(self, f"{kind} {name}", kind, what)
        client.attach(broker)

    def _remove(self, command: Remove) -> None:
        if command.what == "broker":
            node = self.nodes.pop(command.name)
            others = [each for each in self.nodes.values() if node.name in each.wanted]
            node.event(ev.Leave())
            for other in others:
                other.wanted.remove(node.name)
                if node.name in other.router.links.all:
                    other.event(ev.Disconnect(node.name))
            node.die()
            homeless = [each for each in self.clients.values() if each.home == node.name]
            for number, client in enumerate(homeless):
                client.home = ""
                client.attach(list(self.nodes)[number % len(self.nodes)])
        else:
            self._changes.pop(command.name, None)
            self.clients.pop(f"{command.what} {command.name}").leave()

    # -- publications

    def _set_rate(self, name: str, rate: float) -> None:
        self.publishers[name].rate = rate
        change = self._changes[name] = self._changes.get(name, 0) + 1
        if rate:
            first = self.chance.of(f"phase {name} {change}").random() * 60.0 / rate
            self.clock.after(first, self._publish, name, change)

    def _publish(self, name: str, change: int) -> None:
        if self._changes.get(name) != change:
            return
        client, row = self.clients[f"publisher {name}"], self.publishers[name]
        node = self.nodes.get(client.home)
        if node is not None:
            node.take(node.event, ev.Publish(client.name, client.name, self._quotes[name].next()))
        self.clock.after(60.0 / row.rate, self._publish, name, change)

    def _sent(self, source: str, target: str, message: Message) -> None:
        if isinstance(message, Frame) and isinstance(message.body, Publication):
            id = message.body.id
            self._hops[id, target] = self._hops.get((id, source), 0) + 1

    def _done(self, node: BrokerNode, instruction: Instruction) -> None:
        name = getattr(instruction, "client", "")
        if isinstance(instruction, Published):
            row = self.publishers[name.removeprefix("publisher ")]
            row.published += 1
            self._sources[instruction.id] = (row.name, self.clock.now)
        elif isinstance(instruction, Refused):
            self.refused.append(f"{name}: {instruction.error}")
        client = self.clients.get(name)
        if client is not None:
            client.done(node, instruction)
            if isinstance(instruction, Deliver) and isinstance(node, CapacityBroker):
                self._deliver(node, client, instruction)

    def _deliver(self, node: CapacityBroker, client: _Client, deliver: Deliver) -> None:
        id = deliver.publication.id
        if client.is_new(id):
            source, began = self._sources[id]
            row = self.subscribers[client.name.removeprefix("subscriber ")]
            row.deliveries += 1
            row.hops += self._hops.get((id, node.name), 0)
            row.delay += node.delivered_at(deliver) - began
            self.publishers[source].deliveries += 1

    # -- the end

    def result(self) -> Result:
        seconds = self.clock.now
        for rows, kind in ((self.publishers, "publisher"), (self.subscribers, "subscriber")):
            for row in rows.values():
                client = self.clients.get(f"{kind} {row.name}")
                row.broker = client.home if client is not None else ""
        brokers = [
            BrokerRow(
                node.name,
                node.router.role,
                sum(each.kind == "publisher" for each in node.router.clients.all.values()),
                sum(each.kind == "subscriber" for each in node.router.clients.all.values()),
                node.matched,
                node.forwarded,
                node.busy / (seconds - node.since) if seconds > node.since else 0.0,
            )
            for node in self.nodes.values()
            if isinstance(node, CapacityBroker)
        ]
        found = Result(seconds, brokers, list(self.publishers.values()), list(self.subscribers.values()))
        found.refused = self.refused
        return found


def run(commands: list[Command], *, seconds: float = 60.0, seed: int = 1) -> Result:
    """``seconds``: how long it goes on after the last command."""
    world = WorkloadWorld(seed)
    for command in commands:
        world.clock.at(command.at, world.apply, command)
    world.clock.run(commands[-1].at + seconds)
    return world.result()
