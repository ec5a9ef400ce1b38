"""What a town has shown so far, so that a page that comes later can go back to the beginning."""

from __future__ import annotations

import struct
from collections import deque
from typing import Any

#: The most that where everybody was may take; then every second moment of the older ones is let go.
BYTES = 16 * 2**20
#: Events that are kept of each kind.
EVENTS = 4_000
#: Before each moment: its time, and how many bytes follow.
HEAD = struct.Struct("<dI")


class ReplayBuffer:
    def __init__(self, most: int = BYTES) -> None:
        self.most = most
        self._moments: list[tuple[float, bytes]] = []
        self._held = 0
        self._events: dict[str, deque[tuple[str, Any]]] = {}

    def saw(self, at: float, people: bytes) -> None:
        self._moments.append((at, people))
        self._held += len(people)
        if self._held > self.most:
            recent = len(self._moments) * 3 // 4
            self._moments = [*self._moments[:recent:2], *self._moments[recent:]]
            self._held = sum(len(each) for _, each in self._moments)

    def heard(self, event: str, data: Any) -> None:
        self._events.setdefault(event, deque(maxlen=EVENTS)).append((event, data))

    def moments(self) -> bytes:
        """All of them, the oldest first."""
        return b"".join(HEAD.pack(at, len(people)) + people for at, people in self._moments)

    def events(self) -> list[tuple[str, Any]]:
        """In the order of ``at``, which all of them have."""
        return sorted((each for kept in self._events.values() for each in kept), key=lambda each: float(each[1]["at"]))
