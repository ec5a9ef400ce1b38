"""A key space as it is after all peers have joined and it has become quiet, built at once: for many peers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from random import Random

from tocsin.overlay.keyspace.can.boxes import Space
from tocsin.overlay.keyspace.can.can import Can
from tocsin.overlay.keyspace.can.neighbours import Neighbour, Neighbours
from tocsin.overlay.keyspace.can.zones import position
from tocsin.overlay.keyspace.chord.chord import Chord
from tocsin.overlay.keyspace.chord.fingers import Fingers
from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.mercury.long_links import LongLinks
from tocsin.overlay.keyspace.mercury.mercury import Hub
from tocsin.overlay.keyspace.mercury.samples import KEPT
from tocsin.overlay.keyspace.model.contact import Box, Contact, Step
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.overlay.keyspace.overlay import Overlay
from tocsin.overlay.keyspace.peer import Peer

Network = dict[str, Peer]


def chord(peers: int, rng: Random, settings: Settings, *, virtual: int = 1, overlay: Chord | None = None) -> Network:
    overlay = overlay or Chord()
    places = [(f"p{number % peers}", rng.randrange(overlay.order.size)) for number in range(peers * virtual)]
    network, members = _ring("chord", overlay, places, rng, settings)
    positions = [each.me.position for each in members]
    for member in members:
        links = member.links
        assert isinstance(links, Fingers)
        for number in links.targets():
            place = (member.me.position + (1 << number)) % overlay.order.size
            finger = members[bisect_right(positions, place) - 1]
            if finger is not member:
                links.fingers[number] = finger.me
    return network


def mercury(
    peers: int,
    rng: Random,
    settings: Settings,
    *,
    hub: Hub | None = None,
    spread: Callable[[float], float] = lambda x: x,
) -> Network:
    """``spread`` distorts where members are on the hub, as values that are not uniform do."""
    hub = hub or Hub()
    places = [(f"p{number}", int(spread(rng.random()) * hub.size) % hub.size) for number in range(peers)]
    network, members = _ring("hub", hub, places, rng, settings)
    positions = [each.me.position for each in members]
    for member in members:
        links = member.links
        assert isinstance(links, LongLinks)
        for other in rng.sample(members, min(len(members), KEPT)):
            if other is not member and isinstance(other.links, LongLinks):
                links.samples.add(other.links.measure())
        for _ in range(links.count * 2):
            found = members[bisect_right(positions, links.draw()[0]) - 1]
            if found is not member and found.me.id not in {each.id for each in links.links}:
                links.links = [*links.links, found.me][: links.count]
    return network


def can(peers: int, rng: Random, settings: Settings, *, space: Space) -> Network:
    """Each peer has entered at a random key and got half of the zone, cut in the middle."""
    overlay = Can(space)
    tree = Zone((), space.box)
    for _ in range(peers - 1):
        point = overlay.anywhere(rng)
        zone = tree
        while zone.halves:
            low, high = zone.halves
            cut = high.leaf[-1]
            zone = high if point[cut.dimension] >= cut.cut else low
        zone.split(space)
    leaves = sorted(tree.ends(), key=lambda each: position(each.leaf))
    contacts = [Contact(position(each.leaf), 0, f"p{n}/1", f"p{n}", each.leaf) for n, each in enumerate(leaves)]
    network, members = _members("can", overlay, contacts, rng, settings)
    for zone, member in zip(leaves, members, strict=True):
        zone.member = member
    for a, b in _touching(tree, tree, space):
        for one, other in ((a, b), (b, a)):
            assert isinstance(one.links, Neighbours) and isinstance(other.links, Neighbours)
            one.links.table[other.me.id] = Neighbour(other.me, other.links.boxes)
    return network


class Zone:
    """A node of the tree of cuts."""

    def __init__(self, leaf: tuple[Step, ...], box: Box) -> None:
        self.leaf, self.box = leaf, box
        self.halves: tuple[Zone, Zone] | None = None
        self.member: Member | None = None

    def split(self, space: Space) -> None:
        dimension = len(self.leaf) % space.dimensions
        low, high = self.box[dimension]
        cut = (low + high) // 2

        def half(ends: tuple[int, int], *, upper: bool) -> Zone:
            box = (*self.box[:dimension], ends, *self.box[dimension + 1 :])
            return Zone((*self.leaf, Step(dimension, cut, upper)), box)

        self.halves = (half((low, cut), upper=False), half((cut, high), upper=True))

    def ends(self) -> Iterator[Zone]:
        if self.halves is None:
            yield self
        else:
            for each in self.halves:
                yield from each.ends()


def _touching(a: Zone, b: Zone, space: Space) -> Iterator[tuple[Member, Member]]:
    """Pairs of leaves that touch, each once."""
    if a is b:
        if a.halves is not None:
            low, high = a.halves
            yield from _touching(low, low, space)
            yield from _touching(high, high, space)
            yield from _touching(low, high, space)
    elif space.touch(a.box, b.box):
        if a.halves is None and b.halves is None:
            assert a.member is not None and b.member is not None
            yield a.member, b.member
        elif b.halves is None or (a.halves is not None and len(a.leaf) <= len(b.leaf)):
            assert a.halves is not None
            for half in a.halves:
                yield from _touching(half, b, space)
        else:
            for half in b.halves:
                yield from _touching(a, half, space)


def _ring(
    ring: str, overlay: Overlay, places: list[tuple[str, int]], rng: Random, settings: Settings
) -> tuple[Network, list[Member]]:
    contacts = [Contact(place, 0, f"{host}/{number}", host) for number, (host, place) in enumerate(places)]
    return _members(ring, overlay, sorted(contacts, key=lambda each: each.rank), rng, settings)


def _members(
    ring: str, overlay: Overlay, contacts: list[Contact], rng: Random, settings: Settings
) -> tuple[Network, list[Member]]:
    hosts = list(dict.fromkeys(each.host for each in contacts))
    network = {
        host: Peer(host, {ring: overlay}, settings, Random(rng.getrandbits(64)), rng.sample(hosts, min(8, len(hosts))))
        for host in hosts
    }
    members = [network[each.host].membership.add(ring, each) for each in contacts]
    reach = settings.successors + len(contacts) // max(1, len(hosts)) * settings.copies
    for number, member in enumerate(members):
        after = [contacts[(number + step) % len(contacts)] for step in range(1, min(reach + 1, len(contacts)))]
        member.ring.successors = member.ring.enough(after)
        member.ring.predecessor = contacts[number - 1] if len(contacts) > 1 else None
        member.look()
    return network, members
