"""The brokers that a client may connect to. Pure; part of the client's state machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from msgspec import Struct

#: Brokers of a coordinator or of migrations that are remembered, beside those that the application gave.
MOST_LEARNED = 32
#: Seconds for which measured round trips are used again.
MEASURE_EVERY = 600.0


def is_encrypted(url: str) -> bool:
    return url.startswith(("https:", "wss:"))


class Candidate(Struct, frozen=True):
    """``ticket`` is valid for one connection."""

    url: str
    broker: str | None = None
    ticket: str | None = None


class Candidates:
    """``here`` is the broker that the client uses or tries. ``assigned``: a broker or a coordinator sent it there.

    ``coordinator``: the client asks a coordinator first.
    """

    def __init__(self, urls: Sequence[str], coordinator: bool = False) -> None:
        self.urls = list(urls)
        self.here = Candidate("" if coordinator else self.urls[0])
        self.assigned = False
        self.failed: list[str] = []  # names of brokers, since the last welcome
        self.distances: dict[str, float] = {}  # measured round trips by name of the broker, milliseconds
        self._measured_at = float("-inf")
        self._given = len(self.urls)
        self._names: dict[str, str] = {}

    def due(self, now: float) -> bool:
        """Whether round trips have to be measured again."""
        return now >= self._measured_at + MEASURE_EVERY

    def measured(self, distances: dict[str, float], now: float) -> None:
        self.distances = distances
        if distances:
            self._measured_at = now

    def next(self) -> None:
        """The next known one; the first at the beginning."""
        self.assigned = False
        at = self.urls.index(self.here.url) + 1 if self.here.url in self.urls else 0
        url = self.urls[at % len(self.urls)]
        self.here = Candidate(url, self._names.get(url))

    def assign(self, candidate: Candidate) -> None:
        self.here, self.assigned = candidate, True
        if candidate.url not in self.urls:
            self.urls.append(candidate.url)
            if len(self.urls) > self._given + MOST_LEARNED:
                self._names.pop(self.urls.pop(self._given), None)
        if candidate.broker is not None:
            self._names[candidate.url] = candidate.broker

    def use(self) -> Candidate:
        """The one to connect to now; its ticket is used up."""
        candidate = self.here
        self.here = Candidate(candidate.url, candidate.broker)
        return candidate

    def fail(self) -> None:
        name = self.here.broker
        if name is not None and name not in self.failed:
            self.failed = [*self.failed, name][-MOST_LEARNED:]

    def welcomed(self, broker: str) -> None:
        self.failed.clear()
        self.here = Candidate(self.here.url, broker)
        self._names[self.here.url] = broker

    def learn(self, alternatives: Mapping[str, str], random: Random) -> None:
        """Other brokers, in place of those that were learned before; in another order for each client."""
        if not alternatives:
            return
        here = self.here
        names = [name for name, url in alternatives.items() if is_encrypted(url) or not is_encrypted(here.url)]
        random.shuffle(names)
        given = self.urls[: self._given]
        self._names = {url: name for url, name in self._names.items() if url in (*given, here.url)}
        self._names |= {alternatives[name]: name for name in names[:MOST_LEARNED]}
        self.urls = [*given, *(url for url in self._names if url not in given)]
