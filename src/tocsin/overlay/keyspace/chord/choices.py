"""Byers et al.: d hash functions name d places of an item. The least loaded one stores it, the others point there.

A place is an item of its own, so that places are copied and handed over like any other. An item that changes its place
is stored at the new one before the others point there: a lookup finds it at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from tocsin.overlay.keyspace.chord.chord import hashed
from tocsin.overlay.keyspace.messages import Failed, Found, Get, Missing, Probe, Put, Stored
from tocsin.overlay.keyspace.model.contact import Point
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.load import Load
from tocsin.overlay.keyspace.model.redirection import Pointer
from tocsin.overlay.keyspace.requests import Answered

Lookup = Callable[[str, Point, Any, Answered], None]


def place(key: str, choice: int, value: Any, version: int = 1) -> Item:
    return Item(place_id(key, choice), (hashed(key, choice),), value, version)


def place_id(key: str, choice: int) -> str:
    return f"{key}#{choice}"


def placed(id: str) -> tuple[str, int]:
    """The key and the choice of a place."""
    key, _, choice = id.rpartition("#")
    return key, int(choice)


class Choices:
    """``functions``: d. Callbacks get Stored, Found, Missing or Failed."""

    def __init__(self, lookup: Lookup, ring: str, rng: Random, functions: int = 2) -> None:
        self._lookup, self._ring, self._rng, self.functions = lookup, ring, rng, functions

    def insert(self, key: str, value: Any, done: Answered) -> None:
        """Asks the owners of all places for their load at the same time."""
        loads: dict[int, int] = {}
        waiting = self.functions

        def answered(choice: int, body: Any, hops: int) -> None:
            nonlocal waiting
            waiting -= 1
            if isinstance(body, Load):
                loads[choice] = body.items
            if not waiting:
                if not loads:
                    done(Failed("no owner of a place answered"), 0)
                    return
                self._settle(key, value, min(loads, key=lambda each: (loads[each], each)), {}, done)

        for choice in range(self.functions):
            self._ask(key, choice, Probe(), partial(answered, choice))

    def place(self, key: str, value: Any, choice: int, done: Answered) -> None:
        self._settle(key, value, choice, {}, done)

    def find(self, key: str, done: Answered) -> None:
        """By one random function; a pointer is followed, and another place asked if there is nothing."""
        first = self._rng.randrange(self.functions)
        rest = [(first + step) % self.functions for step in range(1, self.functions)]
        self._find(key, first, rest, self.functions + 1, 0, done)

    def _find(self, key: str, choice: int, rest: list[int], more: int, hops: int, done: Answered) -> None:
        def answered(body: Any, further: int) -> None:
            if isinstance(body, Found) and isinstance(body.item.value, Pointer):
                if more and 0 <= body.item.value.choice < self.functions:
                    self._find(key, body.item.value.choice, rest, more - 1, hops + further, done)
                else:
                    done(Failed("pointers that point at each other"), hops + further)
            elif isinstance(body, Missing) and rest:
                self._find(key, rest[0], rest[1:], more, hops + further, done)
            else:
                done(body, hops + further)

        self._ask(key, choice, Get(place_id(key, choice)), answered)

    def redirect(self, key: str, target: int, done: Answered) -> None:
        """Stealing and shedding: the item is stored at another of its places, and all others point there."""
        found: dict[int, Item] = {}
        waiting = self.functions

        def answered(choice: int, body: Any, hops: int) -> None:
            nonlocal waiting
            waiting -= 1
            if isinstance(body, Found):
                found[choice] = body.item
            elif not isinstance(body, Missing):
                found.clear()
            if not waiting:
                values = [each.value for each in found.values() if not isinstance(each.value, Pointer)]
                if not values or not 0 <= target < self.functions:
                    done(Failed("the item is not at any of its places"), 0)
                else:
                    versions = {choice: each.version for choice, each in found.items()}
                    self._settle(key, values[0], target, versions, done)

        for choice in range(self.functions):
            self._ask(key, choice, Get(place_id(key, choice)), partial(answered, choice))

    def _settle(self, key: str, value: Any, choice: int, versions: dict[int, int], done: Answered) -> None:
        """Two that settle an item at the same time have different versions, and one of them counts at all places."""
        others = [each for each in range(self.functions) if each != choice]
        version = (max(versions.values(), default=0) // self.functions + 1) * self.functions + choice

        def stored(body: Any, hops: int) -> None:
            if isinstance(body, Stored) and others:
                other = others.pop()
                put(other, Pointer(choice))
            else:
                done(body, hops)

        def put(at: int, what: Any) -> None:
            self._ask(key, at, Put((place(key, at, what, version),)), stored)

        put(choice, value)

    def _ask(self, key: str, choice: int, body: Any, done: Answered) -> None:
        self._lookup(self._ring, (hashed(key, choice),), body, done)
