"""Groups of subscribers with similar subscriptions: the virtual servers of a broker.

A group that stays together is fetched once at its broker; one that is torn apart is fetched twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

#: Groups that a broker divides its subscribers into, as far as there are enough, and subscribers of the largest.
PARTS, LARGEST = 64, 64
#: Subscribers that are grouped at a time; the next ones have their turn later.
MOST = PARTS * LARGEST
#: Subscriptions of a subscriber that are compared.
COMPARED = 8

_ODD, _BITS = 0x9E3779B97F4A7C15, (1 << 64) - 1

#: A subscriber and its BE subscriptions.
Row = tuple[str, Collection[int]]


def turn(names: Sequence[str], number: int) -> Sequence[str]:
    """The subscribers whose turn it is."""
    if len(names) <= MOST:
        return names
    begin = number * MOST % len(names)
    return list(islice(chain(names[begin:], names), MOST))


def similar(rows: Iterable[Row]) -> Iterator[tuple[str, ...]]:
    """Each subscriber in one group.

    Two subscribers have the same smallest hash with the probability that a subscription of theirs is common to both
    (min-hash). In the order of these hashes, similar ones are neighbours.
    """
    ordered = sorted((signature(ks), name) for name, ks in rows)
    size = min(LARGEST, -(-len(ordered) // PARTS))
    group: list[str] = []
    before: tuple[int, ...] = ()
    for key, name in ordered:
        another = key[:1] != before[:1] and 2 * len(group) > size
        if group and (len(group) >= size or another):
            yield tuple(group)
            group = []
        group.append(name)
        before = key
    if group:
        yield tuple(group)


def signature(ks: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(k * _ODD & _BITS for k in ks)[:COMPARED])
