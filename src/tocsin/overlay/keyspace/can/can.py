"""CAN (Ratnasamy et al.): zones of a d-dimensional space. A new member gets half of the zone that it enters."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec import structs

from tocsin.overlay.keyspace.can.boxes import Space
from tocsin.overlay.keyspace.can.mirrors import Mirror
from tocsin.overlay.keyspace.can.neighbours import Neighbours
from tocsin.overlay.keyspace.can.zones import DEPTH, Leaf, ZoneOrder, contradicts, fitted, parts, position
from tocsin.overlay.keyspace.context import Context
from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.messages import Join
from tocsin.overlay.keyspace.model.contact import Box, Contact, Point, Region, Step
from tocsin.overlay.keyspace.overlay import Links

#: Where a box is cut in a dimension; None if the rule has nothing to go by.
Cut = Callable[[Member, Box, int], int | None]


def middle(member: Member, box: Box, dimension: int) -> int | None:
    low, high = box[dimension]
    return (low + high) // 2


def centroid(member: Member, box: Box, dimension: int) -> int | None:
    links = member.links
    assert isinstance(links, Neighbours)
    return links.centroid.cut(dimension)


def median(member: Member, box: Box, dimension: int) -> int | None:
    """So that each half has as many items."""
    return _median([each.point[dimension] for each in member.own_items() if each.span is None])


def subscriptions(member: Member, box: Box, dimension: int) -> int | None:
    """So that about as many subscriptions are on either side; those on both are kept by both."""
    low, high = box[dimension]
    spans = [each.span[dimension] for each in member.own_items() if each.span is not None]
    return _median([(max(low, a) + min(high, b)) // 2 for a, b in spans])


def _median(values: list[int]) -> int | None:
    return sorted(values)[len(values) // 2] if values else None


RULES: dict[str, Cut] = {"middle": middle, "centroid": centroid, "median": median, "subscriptions": subscriptions}


class Can:
    """``rule`` is the cut of members that do not ask for another one."""

    def __init__(self, space: Space, rule: str = "middle") -> None:
        self.space, self.rule = space, rule
        self.order = ZoneOrder(space)

    def links(self, member: Member) -> Links:
        return Neighbours(member, self.order)

    def first(self, id: str, host: str) -> Contact:
        return Contact(0, 0, id, host)

    def anywhere(self, rng: Random) -> Point:
        return tuple(rng.randrange(self.space.size) for _ in range(self.space.dimensions))

    def prepare(self, join: Join) -> Join:
        return join

    def divide(self, member: Member, join: Join) -> tuple[Contact, Contact] | str:
        region, leaf = member.region, member.me.leaf
        if join.generation:
            return self._taken_over(member, join)
        pieces = parts(leaf, region.end.leaf, region.start.rank >= region.end.rank)
        if join.cut is None and len(pieces) > 1:
            return member.me, _contact(join, pieces[1])  # a zone of several boxes gives them away first
        if len(leaf) >= DEPTH - 1:
            return "the zone has been cut too often"
        cut = self._cut(member, join)
        if cut is None:
            return "the zone cannot be cut there"
        dimension, at = cut
        me = structs.replace(member.me, leaf=(*leaf, Step(dimension, at, False)))
        return me, _contact(join, (*leaf, Step(dimension, at, True)))

    def _taken_over(self, member: Member, join: Join) -> tuple[Contact, Contact] | str:
        if join.position != member.me.position:
            return "the zone begins elsewhere"
        return member.me, structs.replace(member.me, id=join.id, host=join.host, generation=join.generation)

    def _cut(self, member: Member, join: Join) -> tuple[int, int] | None:
        """Dimensions take turns; one in which the rule finds no cut is left out."""
        leaf = member.me.leaf
        box = self.order.box(leaf)
        if join.cut is not None:
            return join.cut if _cuts(box, *join.cut) else None
        for rule in (RULES.get(join.rule or self.rule, middle), middle):
            for turn in range(self.space.dimensions):
                dimension = (len(leaf) + turn) % self.space.dimensions
                at = rule(member, box, dimension)
                if at is not None and _cuts(box, dimension, at):
                    return dimension, at
        return None

    def adjust(self, region: Region) -> Contact:
        return fitted(region)

    def mirror(self, ring: str, id: str, owner: Contact, context: Context) -> Mirror:
        return Mirror(ring, id, owner, self.order, context)

    def loses(self, me: Contact, other: Contact) -> bool:
        return contradicts(me.leaf, other.leaf)


def _cuts(box: Box, dimension: int, at: int) -> bool:
    return 0 <= dimension < len(box) and box[dimension][0] < at < box[dimension][1]


def _contact(join: Join, leaf: Leaf) -> Contact:
    return Contact(position(leaf), join.generation, join.id, join.host, leaf)
