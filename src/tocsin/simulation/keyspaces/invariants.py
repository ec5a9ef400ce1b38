"""What must be true of a key space: always, and once it is quiet."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from msgspec import Struct

from tocsin.overlay.keyspace.can.boxes import meet, volume
from tocsin.overlay.keyspace.can.neighbours import Neighbours
from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.model.item import belongs
from tocsin.simulation.keyspaces.world import World


class Violation(Struct, frozen=True):
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


def unsettled(world: World) -> Iterator[Violation]:
    """What is not right yet."""
    yield from requests_end(world)
    for ring in world.scenario.rings:
        members = world.members(ring)
        yield from aims(world, ring)
        yield from closed(ring, members)
        yield from one_owner(world, ring, members)
        yield from zones(ring, members)
    yield from kept(world)
    for ok in copied(world):
        if not ok:
            yield Violation("copies are made", "an item has too few copies")
    yield from tidy(world)
    yield from sessions_end(world)


def sessions_end(world: World) -> Iterator[Violation]:
    """Every session between hosts has ended, and every action has a result."""
    for node in world.up:
        if node.balanced is not None and (len(node.balanced.host.sessions) or len(node.balanced.execution)):
            yield Violation("every session ends", f"{node.name} has sessions that are open")


def requests_end(world: World) -> Iterator[Violation]:
    """Every request has an answer after a bounded time."""
    settings = world.scenario.settings
    longest = settings.lookup_timeout * (settings.lookup_attempts + 1)
    for number, since in world.open.items():
        if world.clock.now - since > longest:
            yield Violation("every lookup ends", f"request {number} of {since:.1f} has no answer")


def aims(world: World, ring: str) -> Iterator[Violation]:
    for node in world.up:
        found, wanted = len(node.peer.members_of(ring)), node.peer.membership.aims.get(ring, 0)
        if found < wanted or any(each.leaving for each in node.peer.members.values()):
            yield Violation("peers are members", f"{node.name} has {found} of {wanted} members of {ring}")


def closed(ring: str, members: list[Member]) -> Iterator[Violation]:
    """The ring is closed: each member's successor and predecessor are the next and the previous one."""
    ordered = sorted(members, key=lambda each: each.me.rank)
    for member, after in zip(ordered, ordered[1:] + ordered[:1], strict=True):
        successor = member.ring.successors[0].id if member.ring.successors else member.me.id
        predecessor = after.ring.predecessor.id if after.ring.predecessor else after.me.id
        if successor != after.me.id:
            yield Violation(
                "rings are closed", f"{member.me.id} is followed by {successor}, not {after.me.id} ({ring})"
            )
        if predecessor != member.me.id:
            yield Violation("rings are closed", f"{after.me.id} follows {predecessor}, not {member.me.id} ({ring})")


def one_owner(world: World, ring: str, members: list[Member]) -> Iterator[Violation]:
    """Of random keys, of the stored ones, and of those where regions begin."""
    overlay, rng = world.scenario.rings[ring], Random(7)
    points = [overlay.anywhere(rng) for _ in range(10)]
    points += [item.point for (name, _), item in world.stored.items() if name == ring]
    points += [overlay.order.origin(each.me) for each in members]
    for point in points:
        owners = [each.me.id for each in members if each.owns(point)]
        if len(owners) != 1:
            yield Violation("every key has one owner", f"{point} of {ring} has {owners}")


def zones(ring: str, members: list[Member]) -> Iterator[Violation]:
    """The zones of a CAN are a partition of the space, and each member knows all its neighbours."""
    links = [each.links for each in members if isinstance(each.links, Neighbours)]
    if not links:
        return
    boxes = [box for each in links for box in each.boxes]
    if sum(map(volume, boxes)) != volume(links[0].space.box):
        yield Violation("zones are a partition", f"their volumes are not that of the space ({ring})")
    if any(meet(a, b) for number, a in enumerate(boxes) for b in boxes[:number]):
        yield Violation("zones are a partition", f"two of them overlap ({ring})")
    for each in links:
        touching = {o.member.me.id for o in links if any(each.space.touch(a, b) for a in each.boxes for b in o.boxes)}
        if set(each.table) != touching - {each.member.me.id}:
            yield Violation("neighbours know each other", f"{each.member.me.id} does not know its neighbours")


def kept(world: World) -> Iterator[Violation]:
    """What was confirmed is at its owner."""
    for (ring, id), item in world.stored.items():
        for member in world.members(ring):
            if belongs(member.order, member.region, item) and id not in member.store.items:
                yield Violation("no item is lost", f"{member.me.id} owns {id} of {ring} and does not have it")


def copied(world: World) -> Iterator[bool]:
    """Whether each confirmed item is on as many hosts as it should."""
    for ring in world.scenario.rings:
        members = world.members(ring)
        enough = min(world.scenario.settings.copies, len({each.me.host for each in members}))
        for (name, id), item in world.stored.items():
            if name == ring and item.span is None:
                yield len({each.me.host for each in members if id in each.store.items}) >= enough


def tidy(world: World) -> Iterator[Violation]:
    """No peer keeps what is not its own and that no owner has confirmed lately."""
    settings = world.scenario.settings
    for ring in world.scenario.rings:
        for member in world.members(ring):
            strays = member.store.strays(member.region, world.clock.now - settings.stray_after)
            if strays:
                yield Violation("strays are handed over", f"{member.me.id} still has {len(strays)} items of others")
