"""Where a client may find a broker. Pure; part of the client's state machine."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

#: Brokers that are remembered beside the given ones.
MOST_TOLD = 32


class Candidate(Struct, frozen=True):
    """``ticket`` is good for one connection."""

    url: str
    broker: str | None = None
    ticket: str | None = None


class Candidates:
    """``here`` is where the client is, or tries to be. ``stay``: a broker or a coordinator sent it there.

    ``asks``: there is a coordinator to ask first.
    """

    def __init__(self, urls: Sequence[str], asks: bool = False) -> None:
        self.urls = list(urls)
        self.here = Candidate("" if asks else self.urls[0])
        self.stay = False
        self.failed: list[str] = []  # names, since the last welcome
        self._given = len(self.urls)
        self._names: dict[str, str] = {}

    def turn(self) -> None:
        """On to the next one that is known; the first, if the client was nowhere yet."""
        self.stay = False
        at = self.urls.index(self.here.url) + 1 if self.here.url in self.urls else 0
        url = self.urls[at % len(self.urls)]
        self.here = Candidate(url, self._names.get(url))

    def settle(self, place: Candidate) -> None:
        self.here, self.stay = place, True
        if place.url not in self.urls:
            self.urls.append(place.url)
            if len(self.urls) > self._given + MOST_TOLD:
                self._names.pop(self.urls.pop(self._given), None)
        if place.broker is not None:
            self._names[place.url] = place.broker

    def spend(self) -> Candidate:
        """Where to connect now. The ticket goes with it."""
        place = self.here
        self.here = Candidate(place.url, place.broker)
        return place

    def fail(self) -> None:
        name = self.here.broker
        if name is not None and name not in self.failed:
            self.failed = [*self.failed, name][-MOST_TOLD:]

    def welcomed(self, broker: str) -> None:
        self.failed.clear()
        self.here = Candidate(self.here.url, broker)
        self._names[self.here.url] = broker
