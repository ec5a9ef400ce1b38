"""What goes wrong in a key space, and when; drawn before the run begins."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec import Struct

from tocsin.overlay.keyspace import events as ev
from tocsin.simulation.keyspaces.invariants import copied
from tocsin.simulation.keyspaces.node import PeerNode
from tocsin.simulation.keyspaces.world import World
from tocsin.simulation.network.network import LinkQuality, Partition


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
        for _ in range(rng.randint(1, 6))
    ]
    return sorted(found, key=lambda fault: fault.at)


def plant(world: World, faults: list[Fault]) -> None:
    for fault in faults:
        world.clock.at(fault.at, _strike, world, fault)


def _strike(world: World, fault: Fault) -> None:
    if world.trace:
        world.trace.say("FAULT", str(fault))
    world.disturbed |= fault.kind in ("kill", "freeze", "partition", "bad_links")
    KINDS[fault.kind](world, fault)


def _serving(world: World) -> list[PeerNode]:
    return [node for node in world.up if node.name not in world.retired and node.peer.members]


def _one(world: World, who: int) -> PeerNode | None:
    nodes = _serving(world)
    return nodes[who % len(nodes)] if nodes else None


@kind
def kill(world: World, fault: Fault) -> None:
    """Fewer neighbours at once than there are copies, once all items have their copies."""
    if not all(copied(world)):
        world.clock.after(0.5, kill, world, fault)
        return
    ring = list(world.scenario.rings)[fault.who % len(world.scenario.rings)]
    members = sorted(world.members(ring), key=lambda each: each.me.rank)
    hosts = list(dict.fromkeys(each.me.host for each in members[fault.who % max(1, len(members)) :] + members))
    most = min(world.scenario.settings.copies - 1, len(_serving(world)) - 2)
    for host in hosts[: 1 + int(fault.how * most)] if most > 0 else ():
        node = world.nodes[host]
        node.die(silent=True)
        if fault.who % 3:
            world.clock.after(fault.seconds, world.enter, node)
        else:
            world.retired.add(host)


@kind
def leave(world: World, fault: Fault) -> None:
    node = _one(world, fault.who)
    if node is not None and len(_serving(world)) > 2:
        world.retire(node)


@kind
def join(world: World, fault: Fault) -> None:
    for node in list(world.nodes.values())[world.scenario.peers :]:
        if not node.life:
            world.enter(node)
            return


@kind
def freeze(world: World, fault: Fault) -> None:
    node = _one(world, fault.who)
    if node is not None:
        node.freeze(fault.seconds)


@kind
def partition(world: World, fault: Fault) -> None:
    names, rng = list(world.nodes), Random(fault.who)
    wall = Partition(frozenset(rng.sample(names, rng.randint(1, len(names) - 1))), one_way=fault.how > 0.8)
    world.network.partitions.append(wall)
    world.clock.after(fault.seconds, world.network.remove_partition, wall)


@kind
def bad_links(world: World, fault: Fault) -> None:
    furthest = (0.03, 0.3, 0.8)[fault.who % 3]
    world.network.quality = LinkQuality(0.001, furthest, 1.0, 0.3 * fault.how, 0.2)
    world.clock.after(fault.seconds, setattr, world.network, "quality", LinkQuality())


@kind
def hand_over(world: World, fault: Fault) -> None:
    """A member moves to another host."""
    source, target = _one(world, fault.who), _one(world, fault.who // 7)
    if source is not None and target is not None and source is not target:
        members = list(source.peer.members)
        source.call(lambda call: ev.HandOver(members[fault.who % len(members)], target.name, call))


@kind
def rejoin(world: World, fault: Fault) -> None:
    """A member leaves and enters again beside another one."""
    source, target = _one(world, fault.who), _one(world, fault.who // 7)
    if source is None or target is None or source is target or len(_serving(world)) < 3:
        return
    member = list(source.peer.members.values())[fault.who % len(source.peer.members)]
    beside = next((each.me for each in target.peer.membership.of(member.ring.name)), None)
    if beside is not None:
        then = ev.Enter(member.ring.name, beside=beside, rule="median")
        source.call(lambda call: ev.Withdraw(member.me.id, call, then))


@kind
def replicate(world: World, fault: Fault) -> None:
    """Another host serves a zone too."""
    source, target = _one(world, fault.who), _one(world, fault.who // 7)
    if source is not None and target is not None and source is not target:
        member = next(iter(source.peer.members))
        source.call(lambda call: ev.Invite(member, target.name, mirror=True, call=call))


@kind
def split(world: World, fault: Fault) -> None:
    """A machine without members takes part of a region over."""
    source = _one(world, fault.who)
    idle = next((node for node in list(world.nodes.values())[world.scenario.peers :] if not node.life), None)
    if source is not None and idle is not None:
        idle.boot()
        member = next(iter(source.peer.members))
        source.call(lambda call: ev.Invite(member, idle.name, rule="centroid", call=call))
