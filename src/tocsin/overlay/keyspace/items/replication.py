"""Copies: the owner of a region keeps its items on the next hosts of the ring as well.

The owner and each of them compare digests and exchange what differs. So a peer that takes a region over receives its
items from those that have copies, and one that has too much hands it over to the owner before it forgets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

from tocsin.overlay.keyspace.items.store import Store
from tocsin.overlay.keyspace.messages import (
    Copied,
    Copy,
    Describe,
    Described,
    Differs,
    Find,
    Gone,
    Put,
    Route,
    Same,
    Stored,
    Sync,
)
from tocsin.overlay.keyspace.model.contact import Contact, Region
from tocsin.overlay.keyspace.model.item import Item, belongs
from tocsin.overlay.keyspace.model.order import KeyOrder
from tocsin.overlay.keyspace.ring import Ring

#: Items that are handed over in one message.
BATCH = 256


class Replication:
    """``settled``: everything that others have of the region was fetched. ``mirrors``: hosts that serve it too."""

    def __init__(self, ring: Ring, store: Store, order: KeyOrder) -> None:
        self.ring, self.store, self.order = ring, store, order
        self.settled = True
        self.mirrors: dict[str, Contact] = {}
        self.moved = 0
        self._handing = False
        self._fetching = 0

    @property
    def targets(self) -> list[Contact]:
        return [*self._holders, *self.mirrors.values()]

    @property
    def _holders(self) -> list[Contact]:
        """Members on different hosts, for a host may fail with all its members."""
        ring = self.ring
        found: dict[str, Contact] = {}
        for each in ring.successors:
            if each.host != ring.me.host and len(found) < ring.context.settings.copies - 1:
                found.setdefault(each.host, each)
        return list(found.values())

    # -- as owner

    def put(self, items: Iterable[Item], done: Callable[[bool], None]) -> None:
        """``done(True)`` when all copies are made."""
        items = tuple(items)
        self.store.merge(items)
        self._survey(partial(self._copy, items, done))

    def _survey(self, then: Callable[[], None]) -> None:
        """A ring with too few hosts may have grown beside a member that this one hears of a period later: it asks."""
        ring, asked, waiting = self.ring, {self.ring.me.id}, 0

        def explore(contacts: Iterable[Contact]) -> None:
            nonlocal waiting
            short = len(self._holders) < ring.context.settings.copies - 1
            unasked = {each.id: each for each in contacts if short and each.id not in asked}
            asked.update(unasked)
            waiting += len(unasked)
            for each in unasked.values():
                ring.ask(each, Describe(), heard)
            if not waiting:
                then()

        def heard(answer: Any, hops: int) -> None:
            nonlocal waiting
            waiting -= 1
            if isinstance(answer, Described):
                ring.adopt(answer)
            contacts = answer.successors if isinstance(answer, Described | Gone) else ()
            ring.extend(contacts)
            explore((*contacts, *ring.successors))

        explore(ring.successors)

    def _copy(self, items: tuple[Item, ...], done: Callable[[bool], None]) -> None:
        if any(each.span is None and not belongs(self.order, self.ring.region, each) for each in items):
            done(False)  # the owner is a member that it has just met
            return
        targets = self.targets
        if not targets:
            done(True)
            return
        waiting, fine = len(targets), True
        copy = Copy(self.ring.region, items)

        def copied(target: Contact, answer: Any, hops: int) -> None:
            nonlocal waiting, fine
            waiting -= 1
            if not isinstance(answer, Copied):
                fine = False
                self._lost(target)
            if not waiting:
                done(fine)

        for target in targets:
            self.ring.ask(target, copy, partial(copied, target))

    def _lost(self, target: Contact) -> None:
        self.ring.drop(target)
        self.mirrors.pop(target.host, None)

    def sync(self) -> None:
        for target in self.targets:
            self._compare(target, keep=True, done=partial(self._synced, target))

    def _synced(self, target: Contact, answered: bool) -> None:
        if not answered and target.host in self.mirrors:
            self._lost(target)

    def settle(self, joined: Contact | None = None) -> None:
        """Fetches what others have of the region: its copies, and the member from which it was ``joined``."""
        self.settled = False
        self._fetching += 1
        round = self._fetching
        sources = {each.id: each for each in (joined, *self.targets) if each is not None}
        waiting = set(sources)

        def fetched(source: Contact, answered: bool) -> None:
            waiting.discard(source.id)
            if not waiting and round == self._fetching:
                self.settled = True  # a source that does not answer is dead

        for source in sources.values():
            self._compare(source, keep=source is not joined, done=partial(fetched, source))
        if not sources:
            self.settled = True

    def _compare(self, target: Contact, *, keep: bool, done: Callable[[bool], None] = lambda answered: None) -> None:
        region = self.ring.region
        sync = Sync(region, self.store.digest(region), keep)

        def compared(answer: Any, hops: int) -> None:
            if isinstance(answer, Differs):
                self.store.merge(item for item in answer.items if belongs(self.order, self.ring.region, item))
                if keep:
                    self._complete(target, answer.items)
            done(isinstance(answer, Differs | Same))

        self.ring.ask(target, sync, compared)

    def _complete(self, target: Contact, there: tuple[Item, ...]) -> None:
        versions = {item.id: item.version for item in there}
        region = self.ring.region
        missing = tuple(each for each in self.store.within(region) if each.version > versions.get(each.id, -1))
        if missing:
            self.ring.ask(target, Copy(region, missing), lambda answer, hops: None)

    # -- as the holder of a copy

    def compare(self, sync: Sync) -> Same | Differs:
        return compare(self.store, sync, self.ring.context.now)

    def copy(self, copy: Copy) -> Copied:
        return keep(self.store, copy, self.ring.context.now)

    # -- strays

    def hand_over(self, *, leaving: bool) -> None:
        """Gives items that belong to others to their owner, and forgets them once it has made its copies."""
        if self._handing:
            return
        context = self.ring.context
        began = context.now
        if leaving:
            strays = list(self.store.items.values())
        else:
            strays = self.store.strays(self.ring.region, began - context.settings.stray_after)
        if not strays:
            return
        self._handing = True
        first = strays[0]
        # A span has many owners; a member that leaves gives it to the one that takes its region over.
        point = self.order.origin(self.ring.me) if leaving and first.span is not None else first.point

        def found(answer: Any, hops: int) -> None:
            if not isinstance(answer, Described) or answer.me.id == self.ring.me.id:
                self._handing = False
                return
            end = answer.successors[0] if answer.successors else answer.me
            region = Region(answer.me, end)
            theirs = (each for each in strays if each is first or belongs(self.order, region, each))
            batch = list(islice(theirs, BATCH))
            self.ring.ask(answer.me, Put(tuple(batch)), partial(given, batch), nested=True)

        def given(batch: list[Item], answer: Any, hops: int) -> None:
            self._handing = False
            if isinstance(answer, Stored):
                done = [each.id for each in batch if self._unchanged(each) and (leaving or self._stray(each, began))]
                self.moved += len(done)
                self.store.discard(done)

        self._find(point, found)

    def _unchanged(self, item: Item) -> bool:
        known = self.store.items.get(item.id)
        return known is not None and known.version == item.version

    def _stray(self, item: Item, since: float) -> bool:
        """Meanwhile the region may have grown over it, or the new owner may have made this its copy."""
        return self.store.confirmed.get(item.id, -1.0) < since and not belongs(self.order, self.ring.region, item)

    def _find(self, point: tuple[int, ...], done: Callable[[Any, int], None]) -> None:
        """Asks others: this member may believe that it is the owner itself."""
        ring, context = self.ring, self.ring.context

        def attempt(id: int, tried: int) -> None:
            known = [each.host for each in (ring.predecessor, *ring.successors) if each is not None]
            # A member that leaves no longer checks its neighbours, so it also asks others.
            host = context.rng.choice(known) if known and not tried else context.someone(tried)
            if host is not None:
                context.send(host, Route(id, ring.name, "", point, Find(), context.host, careful=tried > 0))

        ring.requests.start(attempt, done, context.settings.lookup_timeout, 3)


def compare(store: Store, sync: Sync, now: float) -> Same | Differs:
    """The answer of a peer that holds copies."""
    items = tuple(store.within(sync.region))
    if sync.keep:
        store.confirm(items, now)
    return Same() if store.digest_of(items) == sync.digest else Differs(items)


def keep(store: Store, copy: Copy, now: float) -> Copied:
    store.merge(copy.items)
    store.confirm(copy.items, now)
    return Copied()
