"""What goes wrong in an overlay, what changes in it, and when; drawn before the run begins."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec import Struct

from tocsin.content import Condition
from tocsin.overlay.content import events as ev
from tocsin.overlay.content.codec import Codec
from tocsin.overlay.content.messages import Hello, Session
from tocsin.simulation.content.client import SimulatedClient
from tocsin.simulation.content.node import BrokerNode
from tocsin.simulation.content.witness import CALM
from tocsin.simulation.content.world import World
from tocsin.simulation.network.network import LinkQuality, Partition

#: Seconds that messages may still be late after bad links.
LATE = 3.0


class Fault(Struct, frozen=True):
    """``who`` and ``how`` are numbers that each kind reads in its own way."""

    at: float
    kind: str
    who: int
    how: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:.2f} for {self.seconds:.1f} s (who {self.who}, how {self.how:.2f})"


Strike = Callable[[World, Fault], None]
KINDS: dict[str, Strike] = {}


def kind(strike: Strike) -> Strike:
    KINDS[strike.__name__] = strike
    return strike


def script(rng: Random, begin: float, end: float) -> list[Fault]:
    kinds = list(KINDS)
    found = [
        Fault(rng.uniform(begin, end), rng.choice(kinds), rng.randrange(10_000), rng.random(), rng.uniform(0.5, 8.0))
        for _ in range(rng.randint(2, 12))
    ]
    return sorted(found, key=lambda fault: fault.at)


def plant(world: World, faults: list[Fault]) -> None:
    for fault in faults:
        world.clock.at(fault.at, _strike, world, fault)


def _strike(world: World, fault: Fault) -> None:
    if world.trace:
        world.trace.say("FAULT", str(fault))
    KINDS[fault.kind](world, fault)


def _one(world: World, who: int) -> BrokerNode:
    return world.up[who % len(world.up)]


def _client(world: World, who: int, kind: ev.Kind | None = None) -> SimulatedClient | None:
    there = [each for each in world.clients.values() if not each.ended and kind in (None, each.kind)]
    return there[who % len(there)] if there else None


# -- the network and its machines


@kind
def kill(world: World, fault: Fault) -> None:
    if len(world.up) > 1:
        node = _one(world, fault.who)
        world.kill(node)
        world.witness.disturb(fault.seconds + LATE)
        world.clock.after(fault.seconds, _again, world, node)


def _again(world: World, node: BrokerNode) -> None:
    if not node.up and node.name not in world.gone:
        node.boot()


@kind
def freeze(world: World, fault: Fault) -> None:
    world.witness.disturb(fault.seconds + LATE)
    _one(world, fault.who).freeze(fault.seconds)


@kind
def partition(world: World, fault: Fault) -> None:
    names, rng = list(world.nodes), Random(fault.who)
    wall = Partition(frozenset(rng.sample(names, rng.randint(1, len(names) - 1))), one_way=fault.how > 0.8)
    world.witness.disturb(fault.seconds + LATE)
    world.network.partitions.append(wall)
    world.clock.after(fault.seconds, world.network.remove_partition, wall)


@kind
def bad_links(world: World, fault: Fault) -> None:
    world.witness.disturb(fault.seconds + LATE)
    furthest = (0.03, 0.3, 0.8)[fault.who % 3]
    world.network.quality = LinkQuality(0.001, furthest, 1.0, 0.4 * fault.how, 0.3)
    world.clock.after(fault.seconds, setattr, world.network, "quality", LinkQuality())


# -- the overlay


@kind
def join(world: World, fault: Fault) -> None:
    node = next((each for each in world.nodes.values() if not each.life), None)
    if node is not None:
        world.join(node, _one(world, fault.who))


@kind
def leave(world: World, fault: Fault) -> None:
    """A broker at the end of the tree."""
    ends = [node for node in world.up if len(world.linked(node.name)) == 1 and node.clock.now >= node.busy_until]
    if len(world.up) > 2 and ends:
        world.leave(ends[fault.who % len(ends)])


def _calm(world: World, *nodes: BrokerNode) -> bool:
    """Whether these brokers know the overlay as it is, and receive from each other."""
    now = world.clock.now
    if any(since <= now <= until for since, until in world.witness.disturbances):
        return False
    return world.witness.calm_within(max(node.since for node in nodes), now) and len(world.up) > 2


@kind
def cycle(world: World, fault: Fault) -> None:
    """An operator tries to connect two brokers that are connected over others, or one to itself."""
    one = _one(world, fault.who)
    others = [node for node in world.up if node.name not in world.linked(one.name)]
    other = others[fault.who // 7 % len(others)]
    if _calm(world, one, other):
        one.event(ev.Connect(other.name))
        world.clock.after(2.0, _give_up, world, (one, one.life), (other, other.life))


def _give_up(world: World, one: tuple[BrokerNode, int], other: tuple[BrokerNode, int]) -> None:
    link = one[0].router.links.all.get(other[0].name) if one[0].up else None
    if link is None:
        return
    if link.established and all(node.life == life for node, life in (one, other)):
        world.witness.broken("cycles are refused", f"{one[0].name} is connected to {other[0].name}")
    one[0].take(one[0].event, ev.Disconnect(other[0].name))


@kind
def namesake(world: World, fault: Fault) -> None:
    """Another broker with the name of one that runs connects to a neighbour of it, or somewhere."""
    one = _one(world, fault.who)
    near = [node for node in world.up if node.name in world.linked(one.name)]
    other = near[0] if near and fault.how < 0.7 else _one(world, fault.who // 7)
    if _calm(world, one, other):
        hello = Hello(Session(one.epoch + 100, 1), None, {one.name: one.epoch + 100})
        other.take(other.received, one.name, Codec().encode(hello))


@kind
def overload(world: World, fault: Fault) -> None:
    node = _one(world, fault.who)
    node.take(node.event, ev.Overload(fault.how < 0.5))


# -- clients


@kind
def subscribe(world: World, fault: Fault) -> None:
    client = _client(world, fault.who, "subscriber")
    if client is not None and len(client.wanted) < 4:
        world.announce(client, Random(fault.who))


@kind
def advertise(world: World, fault: Fault) -> None:
    client = _client(world, fault.who, "publisher")
    if client is not None and len(client.wanted) < 3:
        world.announce(client, Random(fault.who))


@kind
def withdraw(world: World, fault: Fault) -> None:
    client = _client(world, fault.who)
    if client is not None and client.wanted:
        client.withdraw(list(client.wanted)[fault.who % len(client.wanted)])


@kind
def unsubscribe(world: World, fault: Fault) -> None:
    client = _client(world, fault.who, "subscriber")
    if client is not None and client.wanted:
        client.withdraw(next(iter(client.wanted)))


@kind
def arrive(world: World, fault: Fault) -> None:
    if len(world.clients) < 20:
        world.add_client("subscriber" if fault.how < 0.7 else "publisher", Random(fault.who))


@kind
def depart(world: World, fault: Fault) -> None:
    client = _client(world, fault.who)
    if client is not None:
        client.end()


@kind
def burst(world: World, fault: Fault) -> None:
    """More publications than a link takes at a time, and then the publishers depart for a while."""
    for _ in range(20):
        world.publish()
    if fault.how < 0.7:
        for client in world.clients.values():
            if client.kind == "publisher" and client.settled:
                client.relocate()


@kind
def uncover(world: World, fault: Fault) -> None:
    """A subscription ends that covers another one, while messages are lost."""
    subscriptions = [
        (client, id, what)
        for client in world.clients.values()
        for id, what in client.wanted.items()
        if isinstance(what, Condition)
    ]
    wide = [
        (client, id)
        for client, id, what in subscriptions
        if any(other is not client and what.covers(each) for other, _, each in subscriptions)
    ]
    if wide:
        bad_links(world, fault)
        client, id = wide[fault.who % len(wide)]
        client.withdraw(id)
        world.publish_every(0.1, world.clock.now + 2.0)


@kind
def break_link(world: World, fault: Fault) -> None:
    """Publications arrive, but not their acknowledgements; then the connection ends."""
    pairs = sorted(world.tree)
    if not pairs:
        return
    one, other = pairs[fault.who % len(pairs)]
    if fault.how < 0.5:
        one, other = other, one
    wall = Partition(frozenset([other]), one_way=True)
    world.witness.disturb(1.0 + LATE)
    world.network.partitions.append(wall)
    world.publish_every(0.1, world.clock.now + 0.6)
    world.clock.after(0.7, world.network.remove_partition, wall)
    node = world.nodes[one]
    world.clock.after(0.7, node.take, node.event, ev.Broken(other))


__all__ = ["CALM", "KINDS", "Fault", "plant", "script"]
