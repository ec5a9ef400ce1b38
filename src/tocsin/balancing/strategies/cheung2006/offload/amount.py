"""How many subscribers of a subscription go: the loop that figures 4.1, 4.5, 4.6 and 4.8 share."""

from __future__ import annotations

from collections.abc import Callable


def amount(most: int, balanced: Callable[[int], bool], excluded: Callable[[int], bool] | None = None) -> int:
    """The fewest that balance the two brokers, or all that may go.

    From the most down: ``balanced`` includes that the offloading broker is the less loaded one. ``excluded``: numbers
    that a guard refuses.
    """
    previous = False
    for count in range(most, 0, -1):
        if excluded is not None and excluded(count):
            continue
        if not balanced(count):
            return count + 1 if previous else count
        previous = True
    return 1 if previous else 0
