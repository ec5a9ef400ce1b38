"""One subscriber from one broker to another: all that a plan consists of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tocsin.balancing.model.arrays import Ints


class Migration(NamedTuple):
    """``worth``: how much it lowers what the strategy cares about, in units of load. ``must``: even if it adds load."""

    subscriber: int
    source: int
    target: int
    worth: float = 0.0
    must: bool = False
    why: str = ""


def collapsed(at: Ints, played: Iterable[Migration]) -> list[Migration]:
    """Each subscriber once, from where it is (``at``) to where the last of its moves takes it, in the order of those.

    An algorithm may move a subscriber twice or back; nobody should have to reconnect twice for one plan.
    """
    last: dict[int, Migration] = {}
    for move in played:
        last.pop(move.subscriber, None)
        last[move.subscriber] = move
    return [move._replace(source=int(at[u])) for u, move in last.items() if move.target != at[u]]
