"""What the page has shown so far, so that a page that is opened later can go back to the beginning."""

from __future__ import annotations

import struct
from collections import deque
from typing import Any

#: The most that all frames may take; then every second one of the older frames is dropped.
BYTES = 16 * 2**20
#: Events that are kept of each kind.
EVENTS = 4_000
#: Before each frame: its time, and its length in bytes.
HEAD = struct.Struct("<dI")


class ReplayBuffer:
    """A frame holds the location of each person at one moment."""

    def __init__(self, most: int = BYTES) -> None:
        self.most = most
        self._frames: list[tuple[float, bytes]] = []
        self._size = 0
        self._events: dict[str, deque[tuple[str, Any]]] = {}

    def add_frame(self, at: float, people: bytes) -> None:
        self._frames.append((at, people))
        self._size += len(people)
        if self._size > self.most:
            recent = len(self._frames) * 3 // 4
            self._frames = [*self._frames[:recent:2], *self._frames[recent:]]
            self._size = sum(len(frame) for _, frame in self._frames)

    def add_event(self, event: str, data: Any) -> None:
        self._events.setdefault(event, deque(maxlen=EVENTS)).append((event, data))

    def frames(self) -> bytes:
        """All of them, the oldest first."""
        return b"".join(HEAD.pack(at, len(people)) + people for at, people in self._frames)

    def events(self) -> list[tuple[str, Any]]:
        """In the order of ``at``, which all of them have."""
        return sorted((each for kept in self._events.values() for each in kept), key=lambda each: float(each[1]["at"]))
