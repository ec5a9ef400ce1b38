"""Keeps the latest load information of each peer and criterion; old information expires.

As in the paper, the freshest entry is found in O(1), and each outdated one is removed in O(log n).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from tocsin.balancing.host.actions import Peer
from tocsin.balancing.host.load_information import LoadInformation

#: Peers of each criterion; information about more is not registered, so that a liar cannot fill the memory.
MOST_PEERS = 100_000
#: Replaced entries that heaps may contain besides as many as are known.
REPLACED = 16


class Entry(NamedTuple):
    """``number`` is unique, so that heaps never compare information."""

    measured: float
    number: int
    information: LoadInformation


class InformationRegistry:
    """``lifetime``: seconds after which information is outdated.

    Replaced entries stay in the heaps until they reach the top, or until they are the majority.
    """

    def __init__(self, lifetime: float = 90.0) -> None:
        self.lifetime = lifetime
        self._latest: dict[str, dict[Peer, Entry]] = {}
        self._order = count()
        self._oldest: list[Entry] = []
        self._freshest: list[tuple[float, int, Entry]] = []

    def __len__(self) -> int:
        return sum(map(len, self._latest.values()))

    def register(self, information: LoadInformation, now: float) -> bool:
        """False if this is not fresher than what is known of the peer: messages may overtake each other."""
        known = self._latest.setdefault(information.criterion, {})
        # A peer that claims to know the future would never be replaced.
        entry = Entry(now - max(0.0, information.age), next(self._order), information)
        before = known.get(information.peer)
        if entry.measured < now - self.lifetime or (before is not None and before.measured > entry.measured):
            return False
        if before is None and len(known) >= MOST_PEERS:
            return False
        known[information.peer] = entry
        heapq.heappush(self._oldest, entry)
        heapq.heappush(self._freshest, (-entry.measured, -entry.number, entry))
        self._tidy()
        return True

    def get_load_report(self, criterion: str, peers: Iterable[Peer] | None = None) -> list[LoadInformation]:
        """Of these peers (default: all) in order of their names; empty if nothing recent is known."""
        known = self._latest.get(criterion, {})
        return [known[peer].information for peer in sorted(known if peers is None else peers) if peer in known]

    def aged(self, criterion: str, now: float) -> list[LoadInformation]:
        """All that is known, to be passed on."""
        known = self._latest.get(criterion, {})
        return [replace(known[peer].information, age=now - known[peer].measured) for peer in sorted(known)]

    def freshest(self) -> LoadInformation | None:
        return self._freshest[0][2].information if self._freshest else None

    def forget(self, peer: Peer) -> None:
        for known in self._latest.values():
            known.pop(peer, None)
        self._tidy()

    def expire(self, now: float) -> None:
        while self._oldest and self._oldest[0].measured < now - self.lifetime:
            entry = heapq.heappop(self._oldest)
            if self._is_latest(entry):
                del self._latest[entry.information.criterion][entry.information.peer]
        self._tidy()

    def _tidy(self) -> None:
        """What is on top of the heap is known; replaced entries are removed when they are the majority."""
        while self._freshest and not self._is_latest(self._freshest[0][2]):
            heapq.heappop(self._freshest)
        if len(self._freshest) + len(self._oldest) > 4 * len(self) + REPLACED:
            self._oldest = [entry for known in self._latest.values() for entry in known.values()]
            self._freshest = [(-entry.measured, -entry.number, entry) for entry in self._oldest]
            heapq.heapify(self._oldest)
            heapq.heapify(self._freshest)

    def _is_latest(self, entry: Entry) -> bool:
        return self._latest.get(entry.information.criterion, {}).get(entry.information.peer) is entry
