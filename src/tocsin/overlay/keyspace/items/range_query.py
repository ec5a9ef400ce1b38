"""Range queries: from the owner of the lowest value along the ring to the owner of the highest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.overlay.keyspace.messages import Failed, Part, Range
from tocsin.overlay.keyspace.model.contact import Point
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.requests import Answered

Lookup = Callable[[str, Point, Any, Answered], None]


class RangeQuery:
    """Each part says where the next one begins, so that a change of owners loses and repeats nothing."""

    def __init__(self, lookup: Lookup, ring: str, low: int, high: int, done: Answered) -> None:
        self._lookup, self._ring, self._high, self._done = lookup, ring, high, done
        self._items: dict[str, Item] = {}
        self._hops = 0
        self._go_on(low)

    def _go_on(self, low: int) -> None:
        self._lookup(self._ring, (low,), Range(low, self._high), self._answered)

    def _answered(self, answer: Any, hops: int) -> None:
        self._hops += hops
        if not isinstance(answer, Part):
            self._done(answer if isinstance(answer, Failed) else Failed("an unexpected answer"), self._hops)
            return
        self._items.update((each.id, each) for each in answer.items)
        if answer.end is None:
            self._done(Part(tuple(self._items.values()), None), self._hops)
        else:
            self._go_on(answer.end)
