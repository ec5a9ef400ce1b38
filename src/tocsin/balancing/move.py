"""One subscriber from one broker to another: all that a plan consists of."""

from __future__ import annotations

from typing import NamedTuple


class Move(NamedTuple):
    """``worth``: how much it lowers what the strategy cares about, in units of load. ``must``: even if it adds load."""

    subscriber: int
    source: int
    target: int
    worth: float = 0.0
    must: bool = False
    why: str = ""
