"""Random samples of a hub: how many members it has, and where they are."""

from __future__ import annotations

from collections import deque

from tocsin.overlay.keyspace.messages import Measured

#: Samples that are remembered.
KEPT = 48


class Samples:
    """A random walk ends at any member about equally often, so the mean width is the size over their number."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._latest: dict[str, Measured] = {}
        self._order: deque[str] = deque()

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, found: Measured) -> None:
        if found.me.id in self._latest:
            self._order.remove(found.me.id)
        self._order.append(found.me.id)
        self._latest[found.me.id] = found
        if len(self._order) > KEPT:
            del self._latest[self._order.popleft()]

    def forget(self, id: str) -> None:
        if id in self._latest:
            del self._latest[id]
            self._order.remove(id)

    def all(self) -> list[Measured]:
        return list(self._latest.values())

    def members(self) -> float:
        """The estimated number of members."""
        widths = [each.width for each in self._latest.values()]
        return self.size * len(widths) / sum(widths) if widths else 1.0

    def ahead(self, position: int, share: float) -> int:
        """Where one is after passing this share of all members: sampled positions are a histogram of them."""
        offsets = [0, *sorted((each.me.position - position) % self.size for each in self._latest.values()), self.size]
        place = share * (len(offsets) - 1)
        low = min(int(place), len(offsets) - 2)
        between = offsets[low] + (place - low) * (offsets[low + 1] - offsets[low])
        return (position + int(between)) % self.size
