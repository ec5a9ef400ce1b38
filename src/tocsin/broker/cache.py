"""Recent notifications, so that most who come back need nothing from the data cluster. Bounded over all of them."""

from __future__ import annotations

from collections import deque


class Recent:
    """The newest frames of one BE subscription: all of those behind ``floor``, and nothing of what was before."""

    __slots__ = ("entries", "floor")

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.entries: deque[tuple[int, bytes]] = deque()

    def after(self, execution: int) -> list[bytes]:
        """Only for an execution that is not below ``floor``."""
        return [frame for number, frame in self.entries if number > execution]


class Cache:
    """At most ``most_bytes`` of frames, and at most ``most_each`` of one subscription; the oldest go first."""

    __slots__ = ("_order", "bytes", "frames", "hits", "misses", "most_bytes", "most_each")

    def __init__(self, most_bytes: int, most_each: int) -> None:
        self.most_bytes = most_bytes
        self.most_each = most_each
        self.bytes = 0
        self.frames = 0
        self.hits = 0
        self.misses = 0
        self._order: deque[tuple[Recent, int]] = deque()

    def add(self, recent: Recent, execution: int, frame: bytes) -> None:
        entries, order = recent.entries, self._order
        entries.append((execution, frame))
        self.bytes += len(frame)
        self.frames += 1
        order.append((recent, execution))
        if len(entries) > self.most_each:
            self._drop(recent)
        while self.bytes > self.most_bytes:
            oldest, number = order.popleft()
            # What its own subscription pushed out already is in the order still.
            if oldest.entries and oldest.entries[0][0] == number:
                self._drop(oldest)
        if len(order) > 2 * self.frames + 64:
            self._shorten()

    def forget(self, recent: Recent) -> None:
        while recent.entries:
            self._drop(recent)
        self._shorten()

    def _shorten(self) -> None:
        """The order must not outgrow what it orders."""
        if len(self._order) > 2 * self.frames + 64:
            self._order = deque(entry for entry in self._order if entry[1] > entry[0].floor)

    def _drop(self, recent: Recent) -> None:
        number, frame = recent.entries.popleft()
        recent.floor = number
        self.bytes -= len(frame)
        self.frames -= 1
