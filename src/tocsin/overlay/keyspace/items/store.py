"""The items of a member: its own, copies for others, and strays that it still has to hand over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tocsin.overlay.keyspace.model.contact import Point, Region, inside
from tocsin.overlay.keyspace.model.item import Item, belongs
from tocsin.overlay.keyspace.model.order import KeyOrder


class Store:
    """``on_change(item, sign)`` is called for every item that comes (1) or goes (-1)."""

    def __init__(self, order: KeyOrder, on_change: Callable[[Item, int], None]) -> None:
        self.items: dict[str, Item] = {}
        self._order, self._on_change = order, on_change
        self._marks: dict[str, int] = {}
        self._version = 0
        self._digests: dict[tuple[str, str], tuple[int, int]] = {}
        # Items inside and outside of the member's own region, kept up to date: it looks at them every second.
        self._ends: object = None
        self._inside: dict[str, Item] = {}
        self._outside: dict[str, Item] = {}
        self._region: Region | None = None
        #: When the owner of a copy last confirmed that it is to be kept here.
        self.confirmed: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self.items)

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._version

    def merge(self, items: Iterable[Item]) -> None:
        """Keeps the later version of each."""
        for item in items:
            known = self.items.get(item.id)
            if known is None or item.version > known.version:
                if known is not None:
                    self._on_change(known, -1)
                self.items[item.id] = item
                self._marks[item.id] = item.mark
                if self._region is not None:
                    self._part(self._region, item)
                self._on_change(item, 1)
                self._version += 1

    def discard(self, ids: Iterable[str]) -> None:
        for id in ids:
            item = self.items.pop(id, None)
            if item is not None:
                self._inside.pop(id, None)
                self._outside.pop(id, None)
                self._on_change(item, -1)
                self.confirmed.pop(id, None)
                del self._marks[id]
                self._version += 1

    def within(self, region: Region) -> Iterator[Item]:
        if self._ends == _ends(region):
            return iter(list(self._inside.values()))
        return (item for item in self.items.values() if belongs(self._order, region, item))

    def outside(self, region: Region) -> Iterator[Item]:
        if self._ends == _ends(region):
            return iter(list(self._outside.values()))
        return (item for item in self.items.values() if not belongs(self._order, region, item))

    def own(self, region: Region) -> list[Item]:
        """Like ``within``, for the region of the member itself."""
        self._divide(region)
        return list(self._inside.values())

    def _divide(self, region: Region) -> None:
        if self._ends != _ends(region):
            self._ends, self._region = _ends(region), region
            self._inside, self._outside = {}, {}
            for item in self.items.values():
                self._part(region, item)

    def _part(self, region: Region, item: Item) -> None:
        inside, outside = self._inside, self._outside
        if not belongs(self._order, region, item):
            inside, outside = outside, inside
        inside[item.id] = item
        outside.pop(item.id, None)

    def digest(self, region: Region) -> int:
        """Equal for equal items, whatever their order."""
        ends = (repr(region.start.rank), repr(region.end.rank))
        cached = self._digests.get(ends)
        if cached is not None and cached[0] == self._version:
            return cached[1]
        found = self.digest_of(self.within(region))
        if len(self._digests) > 16:
            self._digests.clear()
        self._digests[ends] = (self._version, found)
        return found

    def digest_of(self, items: Iterable[Item]) -> int:
        found = 0
        for item in items:
            found ^= self._marks[item.id]
        return found

    def confirm(self, items: Iterable[Item], now: float) -> None:
        for item in items:
            self.confirmed[item.id] = now

    def matching(self, point: Point) -> list[Item]:
        """Subscriptions whose span contains the key, and that have not ended."""
        return [
            each for each in self.items.values() if each.span is not None and each.value and inside(point, each.span)
        ]

    def strays(self, region: Region, before: float) -> list[Item]:
        """Neither its own, nor a copy that an owner confirmed since ``before``."""
        self._divide(region)
        confirmed = self.confirmed
        return [item for item in self._outside.values() if confirmed.get(item.id, -1.0) < before]


def _ends(region: Region) -> tuple[object, ...]:
    return (region.start.rank, region.start.leaf, region.end.rank, region.end.leaf)
