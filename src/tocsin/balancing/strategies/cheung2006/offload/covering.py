"""Which subscriptions cover which, as the poset has them. Sets of subscriptions are whole numbers, a bit for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def members(numbers: int) -> Iterator[int]:
    """The subscriptions of a set."""
    while numbers:
        lowest = numbers & -numbers
        yield lowest.bit_length() - 1
        numbers ^= lowest


def set_of(numbers: Iterable[int]) -> int:
    found = 0
    for each in numbers:
        found |= 1 << each
    return found


class Covering:
    """``above``: of each subscription those that cover it and are not equal to it."""

    def __init__(self, above: Mapping[int, int]) -> None:
        self.above = above
        self.below: dict[int, int] = dict.fromkeys(above, 0)
        for number, covers in above.items():
            for each in members(covers):
                self.below[each] = self.below.get(each, 0) | 1 << number

    def css(self, present: int) -> list[int]:
        """The covering subscription set of these: no other of them covers it."""
        return [each for each in members(present) if not self.above[each] & present]

    def covered(self, subscription: int, by: int) -> bool:
        """Whether it is equal to one of these, or covered by one."""
        return bool((self.above[subscription] | 1 << subscription) & by)

    def descendants(self, subscription: int, present: int) -> int:
        return self.below[subscription] & present

    def covered_set(self, present: int, by: int) -> int:
        """Phase I's walk from the roots: what a covered subscription covers need not be compared again."""
        found = 0
        for each in self.css(present):
            found |= self._walk(each, present, by, found)
        return found

    def _walk(self, subscription: int, present: int, by: int, found: int) -> int:
        if found >> subscription & 1:
            return 0
        below = self.descendants(subscription, present)
        if self.covered(subscription, by):
            return below | 1 << subscription
        return set_of(each for each in members(below & ~found) if self.covered(each, by))
