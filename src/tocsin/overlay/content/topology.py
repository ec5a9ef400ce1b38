"""The overlay as one broker knows it: a record of every broker, flooded over the links.

A link counts if both its brokers list it. The links that keep the overlay connected are those with the lowest stamps;
one that closes a cycle has a higher stamp than all others on it, or the same and a later name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from tocsin.overlay.content.messages import Record, Role

Pair = tuple[str, str]


class Topology:
    """``me`` is this broker's own record."""

    def __init__(self, name: str, epoch: int, url: str = "") -> None:
        self.me = Record(name, epoch, 1, url=url)
        self.records: dict[str, Record] = {}
        self._astray: dict[str, float] = {}

    # -- records

    def describe(self, links: Iterable[tuple[str, int]], role: Role, overloaded: bool) -> bool:
        """Whether this broker's own record has changed."""
        mine = self.me
        found = Record(mine.name, mine.epoch, mine.version, tuple(sorted(links)), role, overloaded, mine.url)
        if found == mine:
            return False
        self.me = Record(mine.name, mine.epoch, mine.version + 1, found.links, role, overloaded, mine.url)
        return True

    def learn(self, record: Record) -> bool:
        """Whether it is newer than what is known."""
        if record.name == self.me.name:
            return False
        known = self.records.get(record.name)
        if known is not None and (known.epoch, known.version) >= (record.epoch, record.version):
            return False
        self.records[record.name] = record
        return True

    def look_for_astray(self, now: float) -> None:
        """Brokers that no link leads to: they have left, or the records on the way are not here yet."""
        there = {name for name, _ in self.distances()}
        self._astray = {name: self._astray.get(name, now) for name in self.records if name not in there}

    def prune(self, now: float, after: float) -> None:
        """Without brokers that have been astray for this long."""
        for name in [name for name, since in self._astray.items() if now - since > after]:
            del self.records[name], self._astray[name]

    def versions(self) -> dict[str, tuple[int, int]]:
        return {each.name: (each.epoch, each.version) for each in self._all()}

    def newer_than(self, versions: dict[str, tuple[int, int]]) -> tuple[Record, ...]:
        return tuple(each for each in self._all() if (each.epoch, each.version) > versions.get(each.name, (-1, 0)))

    def _all(self) -> Iterator[Record]:
        yield self.me
        yield from self.records.values()

    def find(self, name: str) -> Record | None:
        return self.me if name == self.me.name else self.records.get(name)

    # -- the graph

    def linked(self, name: str) -> Iterator[str]:
        """The neighbours of a broker, as far as known: a link of this broker counts before the other side lists it."""
        record = self.find(name)
        for other, _ in record.links if record else ():
            back = self.find(other)
            if back is None or any(each == name for each, _ in back.links) or record is self.me:
                yield other

    def distances(self, without: str = "") -> Iterator[tuple[str, int]]:
        """All brokers, this one first, with their hops; not over its own link to ``without``."""
        found = {self.me.name: 0}
        waiting = deque(found)
        while waiting:
            name = waiting.popleft()
            yield name, found[name]
            for other in self.linked(name):
                if other not in found and not (name == self.me.name and other == without):
                    found[other] = found[name] + 1
                    waiting.append(other)

    def side(self, without: str) -> dict[str, int]:
        """The brokers on this side of a link, with their epochs; -1 is not known yet."""
        return {
            name: record.epoch if (record := self.find(name)) else -1 for name, _ in self.distances(without=without)
        }

    def __len__(self) -> int:
        return sum(1 for _ in self.distances())

    @property
    def highest(self) -> int:
        return max((stamp for each in self._all() for _, stamp in each.links), default=0)

    def superfluous(self) -> list[str]:
        """The neighbours whose links close a cycle."""
        stamps: dict[Pair, int] = {}
        for each in self._all():
            for other in self.linked(each.name):
                stamp = next(stamp for name, stamp in each.links if name == other)
                pair = (each.name, other) if each.name < other else (other, each.name)
                stamps[pair] = max(stamp, stamps.get(pair, 0))
        group = {name: name for pair in stamps for name in pair}

        def root(name: str) -> str:
            while group[name] != name:
                name = group[name]
            return name

        found = []
        for pair in sorted(stamps, key=lambda each: (stamps[each], each)):
            one, other = map(root, pair)
            if one == other and self.me.name in pair:
                found.append(pair[0] if pair[1] == self.me.name else pair[1])
            group[one] = other
        return found
