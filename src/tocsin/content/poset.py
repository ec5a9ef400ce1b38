"""The partially ordered set of subscriptions: who covers whom.

One node for each unique subscription, with its subscribers. The parents of a node cover it, its children are covered;
the children of the root are the covering subscription set (CSS), which is all that a broker has to forward.

A new node is not compared with all others. What covers it accepts its witness, a publication that it accepts itself,
and the index of all nodes finds these; what it covers has a witness within its ranges, and these are sorted.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator, ValuesView
from typing import Any

from msgspec import Struct

from tocsin.content.advertisement import Advertisement
from tocsin.content.condition import Condition, check_types, covers
from tocsin.content.index.match_index import MatchIndex
from tocsin.content.language.attributes import Attributes
from tocsin.content.language.domains import Ordinal
from tocsin.content.space import ranges as sets
from tocsin.content.space.conjunction import Conjunction
from tocsin.content.space.witness import Witness, witness_of
from tocsin.errors import AlreadyExists, NotFound

#: The number of the node of conditions that are never true: it has no place in the order.
_NEVER = -1
#: What a poset orders: subscriptions, or advertisements.
Space = Condition | Advertisement


class Node:
    """``parents`` is empty for a child of the root."""

    __slots__ = ("children", "condition", "number", "parents", "subscribers", "witness")

    def __init__(self, number: int, condition: Space, witness: Witness | None) -> None:
        self.number = number
        self.condition = condition
        self.witness = witness
        self.subscribers: dict[Hashable, None] = {}
        self.parents: dict[int, Node] = {}
        self.children: dict[int, Node] = {}

    def __repr__(self) -> str:
        return f"Node({self.condition!r})"


class Insertion(Struct, frozen=True):
    """``is_new``: the first subscriber of its node. ``covered``: others cover it, so it need not be forwarded.

    A condition that is never true counts as covered. ``demoted``: nodes that it covers and that were in the CSS.
    """

    node: Node
    is_new: bool
    covered: bool
    demoted: tuple[Node, ...] = ()


class Removal(Struct, frozen=True):
    """``is_last``: the node is gone. ``exposed``: nodes that are now in the CSS, to be forwarded before the removal."""

    node: Node
    is_last: bool
    exposed: tuple[Node, ...] = ()


class Poset:
    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self._index = MatchIndex(attributes)
        self._nodes: dict[int, Node] = {}
        self._roots: dict[int, Node] = {}
        self._by_key: dict[frozenset[Conjunction], Node] = {}
        self._by_subscriber: dict[Hashable, Node] = {}
        #: By attribute: nodes that have a value for it in their witness, in order.
        self._witnesses: dict[str, list[tuple[Any, int]]] = {}
        #: Nodes that no witness was found for, and those whose witness has no attributes.
        self._without: dict[int, Node] = {}
        self._free: list[int] = []
        #: How many times two conditions were compared.
        self.comparisons = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._by_key.values())

    @property
    def css(self) -> ValuesView[Node]:
        """The covering subscription set: a view of the children of the root."""
        return self._roots.values()

    def node_of(self, subscriber: Hashable) -> Node:
        node = self._by_subscriber.get(subscriber)
        if node is None:
            raise NotFound("subscription", str(subscriber))
        return node

    # -- changes

    def insert(self, subscriber: Hashable, condition: Space) -> Insertion:
        """``subscriber`` identifies the subscription, for its removal."""
        if subscriber in self._by_subscriber:
            raise AlreadyExists("subscription", str(subscriber))
        check_types(self.attributes, condition.attributes)
        node = self._by_key.get(condition.key)
        demoted: tuple[Node, ...] = ()
        size = len(self)
        if node is None:
            node, demoted = self._place(condition)
        node.subscribers[subscriber] = None
        self._by_subscriber[subscriber] = node
        return Insertion(node, len(self) > size, node.number not in self._roots, demoted)

    def _place(self, condition: Space) -> tuple[Node, tuple[Node, ...]]:
        """The node of a condition, and what it removed from the CSS."""
        if not condition.terms:
            self._by_key[condition.key] = Node(_NEVER, condition, None)
            return self._by_key[condition.key], ()
        witness = witness_of(condition.terms[0], self.attributes)
        coverers = _closure(self._coverers(condition, witness), lambda node: node.parents)
        covered = _closure(self._covered(condition), lambda node: node.children)
        # Two conditions that cover each other are one subscription, even if their normal forms differ.
        for number, same in coverers.items():
            if number in covered:
                return same, ()
        node = self._make(condition, witness)
        return node, self._link(node, coverers, covered)

    def _make(self, condition: Space, witness: Witness | None) -> Node:
        number = self._free.pop() if self._free else len(self._nodes)
        node = self._nodes[number] = self._by_key[condition.key] = Node(number, condition, witness)
        self._index.add(number, condition)
        for name, ordinal in (witness or {}).items():
            insort(self._witnesses.setdefault(name, []), (ordinal, number))
        if not witness:
            self._without[number] = node
        return node

    def _link(self, node: Node, coverers: dict[int, Node], covered: dict[int, Node]) -> tuple[Node, ...]:
        parents = [each for each in coverers.values() if not any(child in coverers for child in each.children)]
        children = [each for each in covered.values() if not any(parent in covered for parent in each.parents)]
        demoted = tuple(child for child in children if child.number in self._roots)
        for child in children:
            for parent in parents:
                if parent.children.pop(child.number, None) is not None:
                    del child.parents[parent.number]
            self._roots.pop(child.number, None)
            _connect(node, child)
        for parent in parents:
            _connect(parent, node)
        if not parents:
            self._roots[node.number] = node
        return demoted

    def remove(self, subscriber: Hashable) -> Removal:
        node = self.node_of(subscriber)
        del self._by_subscriber[subscriber]
        del node.subscribers[subscriber]
        if node.subscribers:
            return Removal(node, False)
        del self._by_key[node.condition.key]
        if node.number == _NEVER:
            return Removal(node, True)
        return Removal(node, True, self._unlink(node))

    def _unlink(self, node: Node) -> tuple[Node, ...]:
        """What is in the CSS without the node."""
        del self._nodes[node.number]
        self._index.remove(node.number)
        for name, ordinal in (node.witness or {}).items():
            listed = self._witnesses[name]
            del listed[bisect_left(listed, (ordinal, node.number))]
        self._without.pop(node.number, None)
        self._free.append(node.number)
        self._roots.pop(node.number, None)
        for parent in node.parents.values():
            del parent.children[node.number]
        exposed = []
        for child in node.children.values():
            del child.parents[node.number]
            # Not where the child is below a parent on another way.
            above = _closure(child.parents, lambda each: each.parents)
            for parent in node.parents.values():
                if parent.number not in above:
                    _connect(parent, child)
            if not child.parents:
                self._roots[child.number] = child
                exposed.append(child)
        return tuple(exposed)

    # -- who covers whom

    def covers(self, condition: Space) -> bool:
        """Whether a subscription of the poset covers this one."""
        if condition.key in self._by_key or not condition.terms:
            return True
        return bool(self._coverers(condition, witness_of(condition.terms[0], self.attributes)))

    def _coverers(self, condition: Space, witness: Witness | None) -> dict[int, Node]:
        found = self._nodes
        if witness is not None:
            found = {number: self._nodes[number] for number in self._index.match_ordinals(witness).tolist()}
        return {number: node for number, node in found.items() if self._covers(node.condition, condition)}

    def _covered(self, condition: Space) -> dict[int, Node]:
        found = dict(self._without)
        for term in condition.terms:
            found |= self._within(term)
        return {number: node for number, node in found.items() if self._covers(condition, node.condition)}

    def _within(self, term: Conjunction) -> dict[int, Node]:
        """The nodes whose witness is in the ranges of one attribute: of the one that has the fewest."""
        best: list[list[tuple[Any, int]]] | None = None
        for name, values in term.values:
            if not values.null:
                listed = self._witnesses.get(name, [])
                places = [
                    (bisect_left(listed, (low, -1)), _end(listed, high)) for low, high in sets.pairs(values.ranges)
                ]
                if best is None or sum(last - first for first, last in places) < sum(map(len, best)):
                    best = [listed[first:last] for first, last in places]
        if best is None:
            return self._nodes
        return {number: self._nodes[number] for part in best for _, number in part}

    def _covers(self, one: Space, other: Space) -> bool:
        self.comparisons += 1
        return covers(one.terms, other.terms)


def _end(listed: list[tuple[Any, int]], high: Ordinal | None) -> int:
    return len(listed) if high is None else bisect_left(listed, (high, -1))


def _connect(parent: Node, child: Node) -> None:
    parent.children[child.number] = child
    child.parents[parent.number] = parent


def _closure(nodes: dict[int, Node], following: Callable[[Node], dict[int, Node]]) -> dict[int, Node]:
    """With all that follow from them: covering is transitive, also where a comparison cannot show it."""
    found = dict(nodes)
    waiting = list(found.values())
    while waiting:
        for number, node in following(waiting.pop()).items():
            if number not in found:
                found[number] = node
                waiting.append(node)
    return found
