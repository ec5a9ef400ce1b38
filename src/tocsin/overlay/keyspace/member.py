"""One member of a ring: its region, its items, their copies and its shortcuts. A host may have several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.context import Context, Done
from tocsin.overlay.keyspace.items.replication import Replication
from tocsin.overlay.keyspace.items.store import Store
from tocsin.overlay.keyspace.model.contact import Contact, Point, Region, between
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.load import Load
from tocsin.overlay.keyspace.model.order import closest, owns
from tocsin.overlay.keyspace.model.redirection import Pointer
from tocsin.overlay.keyspace.overlay import Overlay
from tocsin.overlay.keyspace.requests import Answered, Requests
from tocsin.overlay.keyspace.ring import Ring

Respond = Callable[[Any], None]
#: Every how many periods members look for other parts of the ring, and compare copies.
SEEK, SYNC = 4, 2
#: Periods after which a member stays that could not hand over all its items.
LAST = 40


class Member:
    """``leaving``: it owns nothing any more and hands over what it has."""

    def __init__(self, ring: str, me: Contact, overlay: Overlay, context: Context, requests: Requests) -> None:
        self.context, self.overlay, self.order = context, overlay, overlay.order
        self.leaving = False
        self.gone = False
        self.ring = Ring(ring, me, context, requests, self._met)
        self.store = Store(self.order, self._changed)
        self.replication = Replication(self.ring, self.store, self.order)
        self.links = overlay.links(self)
        self.events = self.routed = 0
        self._counted: tuple[Any, tuple[int, int, int]] = (None, (0, 0, 0))
        self._extent = self.region
        self._due = context.now + context.rng.random() * context.settings.period
        self._periods = 0
        self._left = 0
        self._joined_from: Contact | None = None
        self._serve: dict[type[Any], Callable[[Any, Respond], None]] = {
            ms.Ping: lambda body, respond: respond(ms.Alive()),
            ms.Describe: lambda body, respond: respond(self.ring.describe()),
            ms.Find: lambda body, respond: respond(self.ring.describe()),
            ms.Notify: lambda body, respond: self.ring.notified(body.sender),
            ms.Introduce: lambda body, respond: self.ring.consider(body.contact),
            ms.Join: self._join,
            ms.Put: self._put,
            ms.Get: self._get,
            ms.Copy: lambda body, respond: respond(self.replication.copy(body)),
            ms.Sync: lambda body, respond: respond(self.replication.compare(body)),
            ms.Range: self._range,
            ms.Publish: self._publish,
            ms.Departing: lambda body, respond: self.ring.stabilise(),
            ms.Probe: lambda body, respond: respond(self.load()),
            ms.Mail: self._mail,
        }

    def lookup(self, point: Point, body: Any, done: Answered, *, careful: bool = False) -> None:
        """``body`` to the owner of a key. From the second attempt on it goes along the ring only."""
        ring, settings = self.ring, self.context.settings

        def attempt(id: int, tried: int) -> None:
            route = ms.Route(id, ring.name, self.me.id, point, body, self.me.host, careful=careful or tried > 0)
            self.route(route, lambda body: self.context.reply(self.me.host, id, body))

        ring.requests.start(attempt, done, settings.lookup_timeout, 3)

    @property
    def me(self) -> Contact:
        return self.ring.me

    @property
    def region(self) -> Region:
        return self.ring.region

    def owns(self, point: Point) -> bool:
        return not self.leaving and owns(self.order, self.ring.region, point)

    def own_items(self) -> list[Item]:
        return [] if self.leaving else self.store.own(self.ring.region)

    def load(self) -> Load:
        region = self.region
        state = (self.store.version, region.start.rank, region.end.rank, self.leaving)
        if state != self._counted[0]:
            items = self.own_items()
            subscriptions = sum(each.span is not None for each in items)
            pointers = sum(isinstance(each.value, Pointer) for each in items)
            self._counted = state, (len(items) - subscriptions - pointers, subscriptions, pointers)
        return Load(*self._counted[1], self.events, self.routed)

    # -- time

    def tick(self) -> None:
        if self.context.now < self._due:
            return
        self._due = self.context.now + self.context.settings.period * self.context.rng.uniform(0.9, 1.1)
        self._periods += 1
        if self.leaving:
            self._leave_on()
            return
        self.ring.stabilise()
        self.ring.check_predecessor()
        if self._periods % SEEK == 0 or not self.ring.successors:
            self.ring.seek(self.order)
        if self._periods % SYNC == 0:
            self.replication.sync()
        if self.replication.settled:
            self._joined_from = None
        self.replication.hand_over(leaving=False)
        self.links.tick()

    def joined(self, welcome: ms.Welcome) -> None:
        self.ring.successors = list(welcome.successors)
        self.ring.predecessor = self._joined_from = welcome.predecessor
        self.links.inherit(welcome.links)
        self._extent = self.region
        self.replication.settle(welcome.predecessor)
        self.ring.stabilise()

    def leave(self) -> None:
        """Others drop it as soon as they hear that it is gone; its items follow."""
        self.leaving = True
        before = self.ring.predecessor
        if before is not None:
            self.context.notify(before.host, self.ring.name, before.id, ms.Departing())

    def _leave_on(self) -> None:
        self._left += 1
        if not len(self.store):
            self.gone = True
        elif self._left > LAST:
            self.leaving, self._left = False, 0
            self.ring.seek(self.order)
        else:
            self.replication.hand_over(leaving=True)

    # -- messages

    def serve(self, body: Any, source: str, respond: Respond) -> None:
        """A question for this member, or for the owner of a key in its region."""
        if self.leaving:
            respond(ms.Gone(tuple(self.ring.successors)))
            return
        handler = self._serve.get(type(body))
        if handler is not None:
            handler(body, respond)
        elif not self.links.handle(body, source, respond):
            respond(ms.Failed(f"this overlay does not know {type(body).__name__}"))
        self.look()

    def look(self) -> None:
        """Acts on a change of the region, whatever caused it."""
        before, ring = self._extent, self.ring
        if ring.me is before.start and (ring.successors[0] if ring.successors else ring.me) is before.end:
            return
        region = self.region
        if region.start is before.start and region.end.id == before.end.id and region.end.leaf == before.end.leaf:
            self._extent = region
            return
        self.ring.me = self.overlay.adjust(region)
        self._extent = self.region
        if region.empty:
            self.leave()
            return
        if not before.alone and (region.alone or between(self.me, before.end, region.end)):
            self.replication.settle(self._joined_from)
        self.links.moved()

    def route(self, route: ms.Route, respond: Respond) -> None:
        """Serves it, or passes it on to a member closer to the owner."""
        if self.owns(route.point):
            self.serve(route.body, route.origin, respond)
            return
        if route.hops >= self.context.settings.hop_limit:
            respond(ms.Failed("too many hops"))
            return
        found = None if route.careful else self.links.next_hop(route.point, route.left)
        step, left = found if found is not None else (None, None)
        if step is None:
            step = closest(self.order, self.me, self.ring.contacts(), route.point)
        if step is None:
            respond(ms.Busy())
            return
        self.routed += 1
        onward = structs.replace(route, member=step.id, hops=route.hops + 1, careful=found is None, left=left)
        self.context.send(step.host, onward)

    # -- handlers

    def _join(self, join: ms.Join, respond: Respond) -> None:
        ring = self.ring
        if ring.successors and ring.successors[0].id == join.id:  # the first welcome was lost
            respond(self._welcome(ring.successors[0], ring.successors[1:]))
            return
        divided = self.overlay.divide(self, join)
        if isinstance(divided, str):
            respond(ms.Failed(divided))
            return
        known = list(ring.successors)
        ring.me, joiner = divided
        ring.welcome(joiner)
        respond(self._welcome(joiner, known))

    def _welcome(self, joiner: Contact, successors: list[Contact]) -> ms.Welcome:
        return ms.Welcome(joiner, self.me, tuple(successors) or (self.me,), self.links.legacy())

    def _put(self, put: ms.Put, respond: Respond) -> None:
        if not all(each.span is not None or self.owns(each.point) for each in put.items):
            respond(ms.Busy())
            return
        ids = tuple(each.id for each in put.items)
        self.replication.put(put.items, lambda copied: respond(ms.Stored(ids) if copied else ms.Busy()))

    def _get(self, get: ms.Get, respond: Respond) -> None:
        item = self.store.items.get(get.id)
        if item is not None:
            self.events += 1
            respond(ms.Found(item))
        else:
            respond(ms.Missing() if self.replication.settled else ms.Busy())

    def _range(self, asked: ms.Range, respond: Respond) -> None:
        if not self.replication.settled or not self.owns((asked.low,)):
            respond(ms.Busy())
            return
        self.events += 1
        items = tuple(
            each for each in self.own_items() if each.span is None and asked.low <= each.point[0] < asked.high
        )
        end = self.region.end.position
        more = not self.region.alone and asked.low < end < asked.high
        respond(ms.Part(items, end if more else None))

    def _publish(self, publish: ms.Publish, respond: Respond) -> None:
        item = publish.item
        self.events += 1
        for subscription in self.store.matching(item.point):
            self.context.send(subscription.value, ms.Notification(subscription.id, item))
        if publish.keep:
            self._put(ms.Put((item,)), respond)
        else:
            respond(ms.Stored((item.id,)))

    def _mail(self, mail: ms.Mail, respond: Respond) -> None:
        self.context.out.append(Done(0, mail))
        respond(ms.Alive())

    # -- callbacks of its parts

    def _met(self, contact: Contact) -> None:
        if not self.leaving and self.overlay.loses(self.me, contact):
            self.leave()

    def _changed(self, item: Item, sign: int) -> None:
        self.links.recorded(item, sign)
