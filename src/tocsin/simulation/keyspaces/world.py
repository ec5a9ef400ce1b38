"""The peers of a key space, their network, and an application that stores and looks up items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.can.dissemination import Reached, Subscribe
from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.peer import Peer
from tocsin.simulation.keyspaces.node import Balance, PeerNode
from tocsin.simulation.keyspaces.scenario import Scenario
from tocsin.simulation.network.clock import Clock
from tocsin.simulation.network.network import LinkQuality, Network
from tocsin.simulation.network.trace import Trace
from tocsin.simulation.random_streams import RandomStreams

#: Seconds until all peers have joined.
SETTLED = 8.0


class World:
    """``disturbed``: a machine or a link has failed. ``broken``: promises that were not kept.

    ``stored``: items whose owner has confirmed them. ``open``: requests without an answer, and since when."""

    def __init__(
        self,
        scenario: Scenario,
        chance: RandomStreams,
        trace: Callable[[Clock], Trace] = Trace,
        balance: Balance | None = None,
    ) -> None:
        self.scenario, self.chance, self._balance = scenario, chance, balance
        self.clock = Clock()
        self.trace = trace(self.clock)
        self.network = Network(self.clock, self.trace, chance.of("network"))
        self.nodes: dict[str, PeerNode] = {}
        self.stored: dict[tuple[str, str], Item] = {}
        self.requests = self.failed = 0
        self.open: dict[int, float] = {}
        self.retired: set[str] = set()
        self.disturbed = False
        self.broken: list[str] = []
        self._starts = 0
        self._rng = chance.of("application")
        for number in range(scenario.peers + scenario.spare):
            name = f"p{number + 1}"
            ticks = chance.of(f"ticks of {name}")
            self.nodes[name] = PeerNode(name, self.network, self.nodes, self._peer, ticks, balance)

    def _peer(self, name: str) -> Peer:
        self._starts += 1
        rng = self.chance.of(f"peer {name} {self._starts}")
        bootstrap = list(self.nodes)[: self.scenario.peers]
        return Peer(name, self.scenario.rings, self.scenario.settings, rng, bootstrap)

    @property
    def up(self) -> list[PeerNode]:
        return [node for node in self.nodes.values() if node.up]

    def members(self, ring: str) -> list[Member]:
        return [each for node in self.up for each in node.peer.members.values() if each.ring.name == ring]

    # -- life

    def start(self) -> None:
        first, *others = list(self.nodes.values())[: self.scenario.peers]
        first.boot()
        for ring, count in self.scenario.members.items():
            first.event(ev.Create(ring))
            first.event(ev.Aim(ring, count))
        for number, node in enumerate(others):
            self.clock.at(0.3 * number, self.enter, node)
        if self._balance is not None:
            for node in list(self.nodes.values())[self.scenario.peers :]:
                node.boot()  # idle: a strategy may give it something to do

    def enter(self, node: PeerNode) -> None:
        """A machine starts, without any memory, and joins."""
        if not node.up:
            node.boot()
            for ring, count in self.scenario.members.items():
                node.event(ev.Aim(ring, count))

    def retire(self, node: PeerNode) -> None:
        """Leaves in an orderly way; the machine stays up without members."""
        self.retired.add(node.name)
        for ring in self.scenario.members:
            node.event(ev.Aim(ring, 0))
        for member in list(node.peer.members.values()):
            node.event(ev.Withdraw(member.me.id))

    def heal(self) -> None:
        self.network.quality = LinkQuality()
        self.network.partitions.clear()
        for node in self.nodes.values():
            node.busy_until = min(node.busy_until, self.clock.now)
            if node.balanced is not None:
                node.balanced.rest()
        if self.trace:
            self.trace.say("world", "all faults end")

    # -- the application

    def put(self, number: int) -> None:
        item = self.scenario.item(self._rng, number)
        for ring in self.scenario.rings:
            self.store(ring, item)

    def store(self, ring: str, item: Item) -> None:
        before = self.hosts(ring)

        def done(body: Any) -> None:
            if isinstance(body, ms.Stored):
                self.stored[ring, item.id] = item
                self.confirmed(ring, item, before)

        self.request(ring, item.point, ms.Put((item,)), done)

    def hosts(self, ring: str) -> set[str]:
        return {each.me.host for each in self.members(ring) if not each.leaving}

    def confirmed(self, ring: str, item: Item, before: set[str]) -> None:
        """As long as no machine and no link has failed, an item is confirmed only when it has all its copies.

        ``before``: the hosts when it was sent. A host that joins while the confirmation is under way is too late."""
        enough = min(self.scenario.settings.copies, len(self.hosts(ring) & before))
        found = len({each.me.host for each in self.members(ring) if item.id in each.store.items})
        if not self.disturbed and self.clock.now > SETTLED and found < enough:
            self.broken.append(f"{item.id} was confirmed with {found} of {enough} copies")

    def subscribe(self, number: int) -> None:
        """Subscriptions are refreshed from time to time, because owners of their keys may have been out of reach."""
        item = self.scenario.subscription(self.chance.of(f"subscription {number}"), number, "p1")
        if item is not None:
            for ring in self.scenario.rings:
                self._subscribe(ring, item)

    def _subscribe(self, ring: str, item: Item) -> None:
        def done(body: Any) -> None:
            if isinstance(body, Reached):
                self.stored[ring, item.id] = item

        self.request(ring, item.point, Subscribe(item), done)

    def get(self) -> None:
        known = [each for each, item in self.stored.items() if item.span is None]
        if known:
            ring, id = self._rng.choice(known)
            self.request(ring, self.stored[ring, id].point, ms.Get(id), lambda body: None)

    def request(self, ring: str, point: tuple[int, ...], body: Any, done: Callable[[Any], None]) -> None:
        """By a random peer. A request is over when it has an answer, or when the machine that asked dies."""
        node = self._rng.choice(self.up)
        self.requests += 1
        number = self.requests
        self.open[number] = self.clock.now

        def ended(body: Any, hops: int) -> None:
            if self.open.pop(number, None) is not None:
                self.failed += isinstance(body, ms.Failed)
                done(body)

        def died() -> None:
            self.open.pop(number, None)

        node.on_death.append(died)
        node.call(lambda call: ev.Request(call, ring, point, body), ended)
