"""Replicas of a zone (Gupta et al.): other hosts serve its events too, and neighbours take turns with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.can.zones import ZoneOrder
from tocsin.overlay.keyspace.context import Context
from tocsin.overlay.keyspace.items.replication import compare, keep
from tocsin.overlay.keyspace.items.store import Store
from tocsin.overlay.keyspace.model.contact import Contact, Region
from tocsin.overlay.keyspace.model.load import Load
from tocsin.overlay.keyspace.model.order import owns

if TYPE_CHECKING:
    from tocsin.overlay.keyspace.can.neighbours import Neighbour

#: Periods without news of the owner after which a mirror ends.
FORGET = 8


class Mirror:
    """Has the items of another host's region, and its table of neighbours to pass messages on."""

    def __init__(self, ring: str, id: str, owner: Contact, order: ZoneOrder, context: Context) -> None:
        self.ring, self.id, self.owner, self.order, self.context = ring, id, owner, order, context
        self.region = Region(owner, owner)
        self.neighbours: tuple[Neighbour, ...] = ()
        self.store = Store(order, lambda item, sign: None)
        self.events = self.routed = 0
        self._ready = False
        self._heard = context.now

    @property
    def ended(self) -> bool:
        return self.context.now - self._heard > FORGET * self.context.settings.period

    def load(self) -> Load:
        return Load(events=self.events, routed=self.routed)

    def serve(self, body: Any, source: str, respond: Callable[[Any], None]) -> None:
        if isinstance(body, ms.Copy):
            respond(keep(self.store, body, self.context.now))
        elif isinstance(body, ms.Sync):
            respond(compare(self.store, body, self.context.now))
        elif isinstance(body, ms.Mirrored):
            self._heard, self.region, self.owner = self.context.now, body.region, body.region.start
            self.neighbours = body.links
            self._ready = True
            self.store.discard([each.id for each in self.store.outside(self.region)])
        else:
            respond(ms.Gone())

    def route(self, route: ms.Route, respond: Callable[[Any], None]) -> None:
        """Serves what only reads; everything else is for the owner."""
        here = self._ready and not route.careful and owns(self.order, self.region, route.point)
        if here and isinstance(route.body, ms.Get) and route.body.id in self.store.items:
            self.events += 1
            respond(ms.Found(self.store.items[route.body.id]))
        elif here and isinstance(route.body, ms.Publish):
            self._publish(route, route.body, respond)
        else:
            self._pass_on(route)

    def _publish(self, route: ms.Route, publish: ms.Publish, respond: Callable[[Any], None]) -> None:
        self.events += 1
        for subscription in self.store.matching(publish.item.point):
            self.context.send(subscription.value, ms.Notification(subscription.id, publish.item))
        if publish.keep:
            self._to_owner(structs.replace(route, body=ms.Put((publish.item,))))
        else:
            respond(ms.Stored((publish.item.id,)))

    def _pass_on(self, route: ms.Route) -> None:
        self.routed += 1
        space, point = self.order.space, route.point
        left = space.nearest(point, self.order.boxes(self.region)) if route.left is None else route.left
        if not route.careful and left and self.neighbours:
            distance, best = min(
                ((space.nearest(point, each.boxes), each.contact) for each in self.neighbours),
                key=lambda found: (found[0], found[1].id),
            )
            if distance < left:
                onward = structs.replace(route, member=best.id, hops=route.hops + 1, left=distance)
                self.context.send(best.host, onward)
                return
        self._to_owner(route)

    def _to_owner(self, route: ms.Route) -> None:
        onward = structs.replace(route, member=self.owner.id, hops=route.hops + 1)
        self.context.send(self.owner.host, onward)


class Turn(Struct):
    """Round robin over a member and its mirrors."""

    number: int = 0

    def next(self, contact: Contact, mirrors: tuple[Contact, ...]) -> Contact:
        self.number += 1
        return (contact, *mirrors)[self.number % (1 + len(mirrors))]
