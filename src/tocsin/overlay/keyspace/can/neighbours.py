"""The neighbours of a CAN's member: their zones touch its own. They greet and introduce each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from tocsin.overlay.keyspace.can.boxes import meet
from tocsin.overlay.keyspace.can.centroid import Centroid
from tocsin.overlay.keyspace.can.dissemination import Dissemination
from tocsin.overlay.keyspace.can.mirrors import Turn
from tocsin.overlay.keyspace.can.zones import ZoneOrder
from tocsin.overlay.keyspace.messages import Described, Find, Mirrored, MirrorRequest, Taken
from tocsin.overlay.keyspace.model.contact import Box, Contact, Point
from tocsin.overlay.keyspace.model.item import Item, belongs

if TYPE_CHECKING:
    from tocsin.overlay.keyspace.member import Member

#: Every how many periods neighbours are greeted, and after how many without a greeting one is forgotten.
GREET, FORGET = 2, 7


class Neighbour(Struct, frozen=True, eq=False):
    """``mirrors``: under which ids other hosts serve the same zone."""

    contact: Contact
    boxes: tuple[Box, ...]
    mirrors: tuple[Contact, ...] = ()


class Greeting(Struct, frozen=True, eq=False):
    """``known``: the sender's own neighbours."""

    me: Neighbour
    known: tuple[Neighbour, ...]


class Neighbours:
    def __init__(self, member: Member, order: ZoneOrder) -> None:
        self.member, self.order, self.space = member, order, order.space
        self.table: dict[str, Neighbour] = {}
        self._centroid = Centroid(self.space.dimensions)
        self._moved = False
        self.dissemination = Dissemination(member, self)
        self._heard: dict[str, float] = {}
        self._turns: dict[str, Turn] = {}
        self._periods = 0

    @property
    def boxes(self) -> tuple[Box, ...]:
        return self.order.boxes(self.member.region)

    def contacts(self) -> Iterable[Contact]:
        return (each.contact for each in self.table.values())

    def next_hop(self, point: Point, left: int | None) -> tuple[Contact, int | None] | None:
        """CAN's greedy step: the neighbour whose zone is nearest to the key, if it is nearer than all before."""
        space = self.space
        nearest = space.nearest(point, self.boxes) if left is None else left
        best = None
        for each in self.table.values():
            distance = space.nearest(point, each.boxes)
            if distance < nearest:
                nearest, best = distance, each
        if best is None:
            return None
        if not best.mirrors:
            return best.contact, nearest
        turn = self._turns.setdefault(best.contact.id, Turn())
        return turn.next(best.contact, best.mirrors), nearest

    def meeting(self, span: Box) -> list[Contact]:
        """Neighbours that own a key of the span."""
        return [each.contact for each in self.table.values() if any(meet(box, span) for box in each.boxes)]

    # -- maintenance

    def tick(self) -> None:
        self._periods += 1
        now, settings = self.member.context.now, self.member.context.settings
        for id in [id for id, heard in self._heard.items() if now - heard > FORGET * settings.period]:
            self._forget(id)
        if self._periods % GREET == 0:
            self._greet(self.contacts())
            self._refresh_mirrors()
        else:
            self._look_for_missing()

    def moved(self) -> None:
        """All who touched the old zone or touch the new one have to know."""
        ring = self.member.ring
        self._moved = True
        near = {each.id: each for each in (*self.contacts(), *ring.successors[:1]) if each.id != ring.me.id}
        if ring.predecessor is not None:
            near[ring.predecessor.id] = ring.predecessor
        self._greet(near.values())
        self._refresh_mirrors()
        for id in [id for id, each in self.table.items() if not self._touches(each.boxes)]:
            self._forget(id)

    def recorded(self, item: Item, sign: int) -> None:
        if not self._moved and item.span is None and belongs(self.order, self.member.region, item):
            self._centroid.add(item, sign)

    @property
    def centroid(self) -> Centroid:
        """Recorded as items come and go; counted again only when it is asked for after a change of the zone."""
        if self._moved:
            self._moved = False
            self._centroid.recount(each for each in self.member.own_items() if each.span is None)
        return self._centroid

    def legacy(self) -> tuple[Neighbour, ...]:
        return (self._myself(), *self.table.values())

    def inherit(self, legacy: Any) -> None:
        for each in legacy:
            if self._touches(each.boxes):
                self.table[each.contact.id] = each
                self._heard[each.contact.id] = self.member.context.now
        self._greet(each.contact for each in legacy)

    def handle(self, body: Any, source: str, reply: Callable[[Any], None]) -> bool:
        if isinstance(body, Greeting):
            self._greeted(body)
            return True
        if isinstance(body, MirrorRequest):
            self._add_mirror(body)
            reply(Taken())
            return True
        return self.dissemination.handle(body, reply)

    def _myself(self) -> Neighbour:
        return Neighbour(self.member.me, self.boxes, tuple(self.member.replication.mirrors.values()))

    def _greet(self, contacts: Iterable[Contact]) -> None:
        greeting = Greeting(self._myself(), tuple(self.table.values()))
        ring = self.member.ring
        for each in list(contacts):
            self.member.context.notify(each.host, ring.name, each.id, greeting)

    def _greeted(self, greeting: Greeting) -> None:
        it = greeting.me
        if not self._touches(it.boxes):
            self._forget(it.contact.id)
            return
        new = it.contact.id not in self.table
        self.table[it.contact.id] = it
        self._heard[it.contact.id] = self.member.context.now
        if new:
            self._greet([it.contact])
        unknown = [each for each in greeting.known if each.contact.id not in self.table]
        self._greet(
            each.contact for each in unknown if each.contact.id != self.member.me.id and self._touches(each.boxes)
        )

    def _add_mirror(self, request: MirrorRequest) -> None:
        """Its copies are made like those of the ring; neighbours learn of it at once."""
        replication = self.member.replication
        replication.mirrors[request.host] = structs.replace(self.member.me, id=request.id, host=request.host)
        self._refresh_mirrors()
        replication.sync()
        self._greet(self.contacts())

    def _refresh_mirrors(self) -> None:
        ring = self.member.ring
        for each in self.member.replication.mirrors.values():
            news = Mirrored(each.id, self.member.region, tuple(self.table.values()))
            self.member.context.notify(each.host, ring.name, each.id, news)

    def _touches(self, boxes: Iterable[Box]) -> bool:
        return any(self.space.touch(mine, box) for mine in self.boxes for box in boxes)

    def _forget(self, id: str) -> None:
        self.table.pop(id, None)
        self._heard.pop(id, None)

    def missing(self) -> Point | None:
        """A key beside the zone of which no neighbour is known to be the owner."""
        return self.space.uncovered(self.boxes, (box for each in self.table.values() for box in each.boxes))

    def _look_for_missing(self) -> None:
        point = self.missing()
        if point is not None:
            self.member.lookup(point, Find(), self._found, careful=True)

    def _found(self, answer: Any, hops: int) -> None:
        if isinstance(answer, Described) and answer.me.id != self.member.me.id:
            self._greet([answer.me])
