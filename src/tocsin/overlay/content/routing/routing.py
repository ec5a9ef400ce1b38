"""The routing tables of one broker: all spaces, and all that the neighbours announced."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import xor

from tocsin.overlay.content.messages import (
    Advertise,
    Announcement,
    Inventory,
    Publication,
    Unadvertise,
    Unsubscribe,
    Withdrawal,
)
from tocsin.overlay.content.routing.space import Forward, Key, Space, What


class Routing:
    """``neighbours``: by name, the ids of what each one announced."""

    def __init__(self) -> None:
        self.spaces: dict[str, Space] = {}
        self.neighbours: dict[str, dict[int, None]] = {}
        self._places: dict[Key, str] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._places

    # -- of clients

    def add(self, key: Key, space: str, what: What) -> list[Forward]:
        found = self.spaces.get(space)
        if found is None:
            found = self.spaces[space] = Space(space, what.attributes)
            for name in self.neighbours:
                found.add_neighbour(name)
        self._places[key] = space
        found.add(key, what)
        return list(found.changes())

    def remove(self, keys: Iterable[Key]) -> list[Forward]:
        """Several together: what one uncovers and another would withdraw is not forwarded."""
        touched: dict[str, Space] = {}
        for key in keys:
            name = self._places.pop(key)
            touched[name] = self.spaces[name]
            touched[name].remove(key)
        return [each for space in touched.values() for each in self._settle(space)]

    def _settle(self, space: Space) -> list[Forward]:
        found = list(space.changes())
        if space.empty:
            self.spaces.pop(space.name, None)
        return found

    # -- of neighbours

    def add_neighbour(self, name: str) -> None:
        self.neighbours[name] = {}
        for space in self.spaces.values():
            space.add_neighbour(name)
            list(space.changes())  # it gets all of it when it says what it has

    def remove_neighbour(self, name: str) -> list[Forward]:
        for id in self.neighbours.pop(name):
            del self._places[Key(True, name, id)]
        for space in self.spaces.values():
            space.remove_neighbour(name)
        return [each for space in list(self.spaces.values()) for each in self._settle(space)]

    def announced(self, name: str, body: Announcement) -> list[Forward]:
        """One that is known already changes nothing."""
        if body.id in self.neighbours[name]:
            return []
        self.neighbours[name][body.id] = None
        what: What = body.advertisement if isinstance(body, Advertise) else body.condition
        return self.add(Key(True, name, body.id), body.space, what)

    def withdrawn(self, name: str, body: Withdrawal) -> list[Forward]:
        if body.id not in self.neighbours[name]:
            return []
        del self.neighbours[name][body.id]
        return self.remove([Key(True, name, body.id)])

    # -- what two neighbours agree on

    def held(self, name: str) -> int:
        """A digest of what the neighbour has announced here."""
        return reduce(xor, self.neighbours[name], 0)

    def due(self, name: str) -> dict[int, Announcement]:
        """All that the neighbour should have from here."""
        return {body.id: body for space in self.spaces.values() for body in space.announced(name)}

    def differs(self, name: str, digest: int) -> bool:
        return reduce(xor, self.due(name), 0) != digest

    def missing(self, name: str, inventory: Inventory) -> list[Forward]:
        """What makes the neighbour's inventory what it should be: first what it lacks."""
        due, there = self.due(name), inventory.advertised | inventory.subscribed
        found: list[Forward] = [(name, body) for id, body in due.items() if id not in there]
        found += [(name, Unsubscribe(id)) for id in sorted(inventory.subscribed - due.keys())]
        return found + [(name, Unadvertise(id)) for id in sorted(inventory.advertised - due.keys())]

    def inventory(self, name: str) -> Inventory:
        ids = {id: self.spaces[self._places[Key(True, name, id)]] for id in self.neighbours[name]}
        advertised = frozenset(id for id, space in ids.items() if Key(True, name, id) in space.advertisements)
        return Inventory(advertised, frozenset(ids) - advertised)

    # -- publications

    def fed_by(self, name: str) -> tuple[list[str], dict[str, list[str]]]:
        """The neighbours and clients, with their subscriptions, whose publications may come over this link."""
        links: dict[str, None] = {}
        clients: dict[str, list[str]] = {}
        for space in self.spaces.values():
            for key in space.fed_by(name):
                if key.is_link:
                    links[key.owner] = None
                else:
                    clients.setdefault(key.owner, []).append(str(key.id))
        return sorted(links), clients

    def route(self, publication: Publication, source: str = "") -> tuple[list[str], dict[str, list[str]]]:
        """Matched once: the neighbours it goes to, except its source, and the clients with their subscriptions."""
        links: dict[str, None] = {}
        clients: dict[str, list[str]] = {}
        space = self.spaces.get(publication.space)
        for key in space.match(publication.values) if space is not None else ():
            if not key.is_link:
                clients.setdefault(key.owner, []).append(str(key.id))
            elif key.owner != source:
                links[key.owner] = None
        return sorted(links), clients
