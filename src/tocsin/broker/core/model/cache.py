"""Recent notifications, so that most who come back need nothing from the data cluster. Bounded over all of them."""

from __future__ import annotations

from collections import deque


class Recent:
    """The newest messages of one BE subscription: all after execution ``complete_after``, none before.

    ``passed``: how many of its places in the cache's order, the first ones, are of messages that are gone.
    """

    __slots__ = ("complete_after", "entries", "passed")

    def __init__(self, complete_after: int) -> None:
        self.complete_after = complete_after
        self.passed = 0
        self.entries: deque[tuple[int, bytes]] = deque()

    def after(self, execution: int) -> list[bytes]:
        """Only for an execution that is not below ``complete_after``."""
        return [message for number, message in self.entries if number > execution]


class Cache:
    """At most ``most_bytes`` of messages, and at most ``most_each`` of one subscription; the oldest go first."""

    __slots__ = ("_order", "_passed", "bytes", "hits", "misses", "most_bytes", "most_each")

    def __init__(self, most_bytes: int, most_each: int) -> None:
        self.most_bytes = most_bytes
        self.most_each = most_each
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._order: deque[Recent] = deque()
        self._passed = 0

    @property
    def messages(self) -> int:
        return len(self._order) - self._passed

    def add(self, recent: Recent, execution: int, message: bytes) -> None:
        entries = recent.entries
        entries.append((execution, message))
        self._order.append(recent)
        self.bytes += len(message)
        if len(entries) > self.most_each:
            self._pass(recent)
            self._shorten()
        if self.bytes > self.most_bytes:
            self._shrink()

    def forget(self, recent: Recent) -> None:
        while recent.entries:
            self._pass(recent)
        self._shorten()

    def _pass(self, recent: Recent) -> None:
        """Its oldest message goes; its place in the order stays until it comes up."""
        self._drop(recent)
        recent.passed += 1
        self._passed += 1

    def _shrink(self) -> None:
        while self.bytes > self.most_bytes:
            oldest = self._order.popleft()
            if oldest.passed:
                oldest.passed -= 1
                self._passed -= 1
            else:
                self._drop(oldest)

    def _shorten(self) -> None:
        """The order must not outgrow what it orders."""
        if self._passed <= self.messages + 64:
            return
        kept: deque[Recent] = deque()
        for recent in self._order:
            if recent.passed:
                recent.passed -= 1
            else:
                kept.append(recent)
        self._order, self._passed = kept, 0

    def _drop(self, recent: Recent) -> None:
        recent.complete_after, message = recent.entries.popleft()
        self.bytes -= len(message)
