"""Which subscriptions each quote matches, and which cover which, worked out once for a whole workload.

Subscriptions are compared by the content poset. Quotes are matched column by column, as the conditions have at most
two comparisons besides the class; a test holds that to the conditions themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tocsin.balancing.strategies.cheung2006.offload.covering import Covering
from tocsin.content import Condition
from tocsin.content.poset import Node, Poset
from tocsin.simulation.content.workload.capacity import ENVELOPE
from tocsin.simulation.content.workload.quotes import ATTRIBUTES
from tocsin.simulation.edges.workload import Workload

_SYMBOL = re.compile(r"\[symbol,eq,'([^']*)'\]")
_COMPARISON = re.compile(r"\[(high|low|volume),([<>]),([^\]]*)\]")


class Quote:
    """A publication: the numbers of the subscriptions that it matches, as an array and as a set, and its bytes."""

    __slots__ = ("bits", "matched", "size")

    def __init__(self, matched: np.ndarray[Any, np.dtype[np.intp]], size: int) -> None:
        self.matched, self.size = matched, size
        bits = 0
        for each in matched.tolist():
            bits |= 1 << each
        self.bits = bits


class Matches:
    def __init__(self, workload: Workload) -> None:
        self.subscriptions = workload.subscriptions
        self.quotes: dict[str, list[Quote]] = {}
        by_symbol: dict[str | None, list[int]] = {}
        for number, text in enumerate(workload.subscriptions):
            named = _SYMBOL.search(text)
            by_symbol.setdefault(named[1] if named else None, []).append(number)
        for symbol, quotes in workload.quotes.items():
            numbers = sorted([*by_symbol.get(symbol, ()), *by_symbol.get(None, ())])
            self.quotes[symbol] = self._matched(numbers, quotes)

    def _matched(self, numbers: Sequence[int], quotes: Sequence[Mapping[str, Any]]) -> list[Quote]:
        columns = {name: np.array([quote[name] for quote in quotes]) for name in ("high", "low", "volume")}
        table = np.ones((len(quotes), len(numbers)), dtype=bool)
        for place, number in enumerate(numbers):
            for name, operator, value in _COMPARISON.findall(self.subscriptions[number]):
                column = columns[name]
                table[:, place] &= column > float(value) if operator == ">" else column < float(value)
        ordered = np.array(numbers, dtype=np.intp)
        return [Quote(ordered[row], size_of(quote)) for row, quote in zip(table, quotes, strict=True)]

    def covering(self) -> Covering:
        """By the poset of all subscriptions."""
        poset = Poset(ATTRIBUTES)
        nodes = [
            poset.insert(n, Condition.of_padres(text, ATTRIBUTES)).node for n, text in enumerate(self.subscriptions)
        ]
        numbers = {node.number: number for number, node in enumerate(nodes)}
        above: dict[int, int] = {}

        def ancestors(node: Node) -> int:
            number = numbers[node.number]
            if number not in above:
                found = 0
                for parent in node.parents.values():
                    found |= ancestors(parent) | 1 << numbers[parent.number]
                above[number] = found
            return above[number]

        for node in nodes:
            ancestors(node)
        return Covering(above)


def size_of(quote: Mapping[str, Any]) -> int:
    """Bytes in PADRES' notation, with an envelope."""
    return ENVELOPE + len(",".join(f"[{name},{value!r}]" for name, value in quote.items()))
