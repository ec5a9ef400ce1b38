"""The load of a peer by its items that have several places. A unit is the key of an item."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tocsin.balancing.host.actions import Unit
from tocsin.balancing.host.messages import Key, Recipient
from tocsin.balancing.host.scope import Scope
from tocsin.overlay.balancing.region_load import RegionLoad
from tocsin.overlay.keyspace.chord.choices import place_id, placed
from tocsin.overlay.keyspace.chord.chord import hashed
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.redirection import Pointer
from tocsin.overlay.keyspace.peer import Peer


class ItemLoad(RegionLoad):
    """``functions``: places of each item, d."""

    def __init__(self, peer: Peer, ring: str, functions: int = 2) -> None:
        super().__init__(peer, ring)
        self.functions = functions

    def units(self, criterion: str) -> Sequence[tuple[Unit, float]]:
        return [(placed(each.id)[0], 1.0) for each in self._items() if not isinstance(each.value, Pointer)]

    def holds(self, unit: Unit) -> bool:
        return self.choice(unit) is not None

    def choice(self, key: Unit) -> int | None:
        """At which of its places this peer stores the item, if it does."""
        for choice in range(self.functions):
            id = place_id(key, choice)
            for member in self.members:
                item = member.store.items.get(id)
                if item is not None and member.owns(item.point) and not isinstance(item.value, Pointer):
                    return choice
        return None

    def elsewhere(self, scope: Scope) -> tuple[Unit, Recipient] | None:
        found = self._any(scope.rng, pointers=False)
        if found is None:
            return None
        key, choice = placed(found.id)
        other = (
            (choice + 1 + scope.rng.randrange(self.functions - 1)) % self.functions if self.functions > 1 else choice
        )
        return key, Key(hashed(key, other))

    def redirected(self, scope: Scope) -> tuple[Unit, Recipient] | None:
        found = self._any(scope.rng, pointers=True)
        if found is None:
            return None
        key, _ = placed(found.id)
        return key, Key(hashed(key, found.value.choice))

    def _any(self, rng: Random, *, pointers: bool) -> Item | None:
        items = [each for each in self._items() if isinstance(each.value, Pointer) is pointers]
        return rng.choice(items) if items else None

    def _items(self) -> list[Item]:
        return [each for member in self.members for each in member.own_items() if each.span is None and "#" in each.id]
