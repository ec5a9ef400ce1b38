"""What one neighbour should know of the others' announcements: those that no other one covers."""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Struct

from tocsin.content import Advertisement, Attributes, Condition, Poset
from tocsin.content.poset import Node


class Changes(Struct, frozen=True):
    """In the order in which the neighbour has to learn of them: what is new before what it replaces (T8)."""

    announced: tuple[Node, ...]
    withdrawn: tuple[Node, ...]


class CoveringSet:
    """A poset, and what of its covering set the neighbour has. Several changes are forwarded together."""

    def __init__(self, attributes: Attributes) -> None:
        self._poset = Poset(attributes)
        self._keys: set[Hashable] = set()
        self.forwarded: dict[Node, None] = {}
        self._new: dict[Node, None] = {}
        self._old: dict[Node, None] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._keys

    def insert(self, key: Hashable, what: Condition | Advertisement) -> None:
        self._keys.add(key)
        done = self._poset.insert(key, what)
        if done.is_new and not done.covered:
            self._expose(done.node)
        for node in done.demoted:
            self._hide(node)

    def remove(self, key: Hashable) -> None:
        if key not in self._keys:
            return
        self._keys.discard(key)
        done = self._poset.remove(key)
        if done.is_last:
            self._hide(done.node)
        for node in done.exposed:
            self._expose(node)

    def _expose(self, node: Node) -> None:
        if node in self.forwarded:
            self._old.pop(node, None)
        else:
            self._new[node] = None

    def _hide(self, node: Node) -> None:
        if node in self.forwarded:
            self._old[node] = None
        else:
            self._new.pop(node, None)

    def changes(self) -> Changes:
        """Since the last time."""
        found = Changes(tuple(self._new), tuple(self._old))
        for node in found.withdrawn:
            del self.forwarded[node]
        self.forwarded.update(self._new)
        self._new.clear()
        self._old.clear()
        return found
