"""The announcements of one space, and what each neighbour should know of them.

A space is a feed with the types of its attributes: conditions of two spaces have nothing in common. Advertisements go
to all neighbours but the one they come from (T6); subscriptions to those whose advertisements intersect them; of both,
only what no other one covers (T7, T9). So what a neighbour has depends on what is announced, and not on the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from tocsin.content import Advertisement, Attributes, Condition, MatchIndex
from tocsin.content.poset import Node
from tocsin.overlay.content.messages import Advertise, Announcement, Body, Subscribe, Unadvertise, Unsubscribe
from tocsin.overlay.content.routing.covering_set import CoveringSet
from tocsin.overlay.content.routing.overlap_index import OverlapIndex

What = Condition | Advertisement
#: A neighbour, and what it should get.
Forward = tuple[str, Body]


class Key(NamedTuple):
    """An announcement: of a neighbour or a client, and its id there."""

    is_link: bool
    owner: str
    id: int | str

    def is_from(self, neighbour: str) -> bool:
        return self.is_link and self.owner == neighbour


class Neighbour:
    """``announced``: by id, all that the neighbour should have from here."""

    def __init__(self, attributes: Attributes) -> None:
        self.advertisements = CoveringSet(attributes)
        self.subscriptions = CoveringSet(attributes)
        self.ids: dict[Node, int] = {}


class Space:
    def __init__(self, name: str, attributes: Attributes) -> None:
        self.name, self.attributes = name, attributes
        self.advertisements: dict[Key, Advertisement] = {}
        self._subscriptions: OverlapIndex[Key, Condition] = OverlapIndex()
        self._attracting: dict[str, OverlapIndex[Key, Advertisement]] = {}
        self.neighbours: dict[str, Neighbour] = {}
        self._index = MatchIndex(attributes)
        self._numbers: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}
        self._free: list[int] = []

    @property
    def subscriptions(self) -> dict[Key, Condition]:
        return self._subscriptions.items

    @property
    def empty(self) -> bool:
        return not self.advertisements and not self.subscriptions

    # -- announcements

    def add(self, key: Key, what: What) -> None:
        if isinstance(what, Advertisement):
            self._advertise(key, what)
        else:
            self._subscribe(key, what)

    def _advertise(self, key: Key, advertisement: Advertisement) -> None:
        self.advertisements[key] = advertisement
        for name, neighbour in self.neighbours.items():
            if not key.is_from(name):
                neighbour.advertisements.insert(key, advertisement)
        if key.is_link and key.owner in self.neighbours:
            self._attracting[key.owner].add(key, advertisement)
            attracted = self.neighbours[key.owner].subscriptions
            for each, condition in self._subscriptions.candidates(advertisement):
                if not each.is_from(key.owner) and each not in attracted and advertisement.intersects(condition):
                    attracted.insert(each, condition)

    def _subscribe(self, key: Key, condition: Condition) -> None:
        self._subscriptions.add(key, condition)
        number = self._free.pop() if self._free else len(self._numbers)
        self._numbers[key], self._keys[number] = number, key
        self._index.add(number, condition)
        for name, neighbour in self.neighbours.items():
            if not key.is_from(name) and self._attracts(name, condition):
                neighbour.subscriptions.insert(key, condition)

    def _attracts(self, neighbour: str, condition: Condition) -> bool:
        """Whether a publication that matches may come from there."""
        advertised = self._attracting[neighbour].candidates(condition)
        return any(each.intersects(condition) for _, each in advertised)

    def remove(self, key: Key) -> None:
        if key in self.advertisements:
            self._unadvertise(key)
        if key in self.subscriptions:
            self._unsubscribe(key)

    def _unadvertise(self, key: Key) -> None:
        gone = self.advertisements.pop(key)
        for neighbour in self.neighbours.values():
            neighbour.advertisements.remove(key)
        if key.is_link and key.owner in self.neighbours:
            self._attracting[key.owner].remove(key)
            attracted = self.neighbours[key.owner].subscriptions
            for each, condition in self._subscriptions.candidates(gone):
                if each in attracted and gone.intersects(condition) and not self._attracts(key.owner, condition):
                    attracted.remove(each)

    def _unsubscribe(self, key: Key) -> None:
        self._subscriptions.remove(key)
        number = self._numbers.pop(key)
        del self._keys[number]
        self._free.append(number)
        self._index.remove(number)
        for neighbour in self.neighbours.values():
            neighbour.subscriptions.remove(key)

    # -- neighbours

    def add_neighbour(self, name: str) -> None:
        found = self.neighbours[name] = Neighbour(self.attributes)
        self._attracting[name] = OverlapIndex()
        for key, advertisement in self.advertisements.items():
            if not key.is_from(name):
                found.advertisements.insert(key, advertisement)
        for key, condition in self.subscriptions.items():
            if not key.is_from(name) and self._attracts(name, condition):
                found.subscriptions.insert(key, condition)

    def remove_neighbour(self, name: str) -> None:
        """Without all that came from there."""
        self.neighbours.pop(name, None)
        self._attracting.pop(name, None)
        for key in [*self.advertisements, *self.subscriptions]:
            if key.is_from(name):
                self.remove(key)

    def announced(self, name: str) -> Iterator[Announcement]:
        """All that a neighbour should have from here."""
        neighbour = self.neighbours[name]
        for node in [*neighbour.advertisements.forwarded, *neighbour.subscriptions.forwarded]:
            yield self._announcement(neighbour, node)

    def changes(self) -> Iterator[Forward]:
        """What the neighbours have to learn now: for each, what is new before what is gone."""
        for name, neighbour in self.neighbours.items():
            advertised, subscribed = neighbour.advertisements.changes(), neighbour.subscriptions.changes()
            for node in (*advertised.announced, *subscribed.announced):
                yield name, self._announcement(neighbour, node)
            for node in subscribed.withdrawn:
                yield name, Unsubscribe(neighbour.ids.pop(node))
            for node in advertised.withdrawn:
                yield name, Unadvertise(neighbour.ids.pop(node))

    def _announcement(self, neighbour: Neighbour, node: Node) -> Announcement:
        what = node.condition
        kind = "advertisement" if isinstance(what, Advertisement) else "subscription"
        id = neighbour.ids.get(node)
        if id is None:
            sql = what.condition.to_sql() if isinstance(what, Advertisement) else what.to_sql()
            id = neighbour.ids[node] = digest(kind, self.name, sql)
        return Advertise(id, self.name, what) if isinstance(what, Advertisement) else Subscribe(id, self.name, what)

    # -- publications

    def fed_by(self, name: str) -> list[Key]:
        """The subscriptions whose publications may come from a neighbour."""
        neighbour = self.neighbours.get(name)
        return [] if neighbour is None else [key for key in self.subscriptions if key in neighbour.subscriptions]

    def match(self, values: Mapping[str, Any]) -> list[Key]:
        """The subscriptions of neighbours and clients that a publication matches."""
        return [self._keys[number] for number in self._index.match(values).tolist()]


def space_name(feed: str, attributes: Attributes) -> str:
    types = (f"{each.name} {each.domain.type} {each.nullable}" for each in attributes)
    return f"{feed}#{digest(*types):024x}"


def digest(*texts: str) -> int:
    """The same in every process."""
    return int.from_bytes(blake2b("\0".join(texts).encode(), digest_size=12).digest(), "big")
