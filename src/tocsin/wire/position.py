"""Where a subscriber is in a channel: the one offset of the system."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """``execution`` counts from 1 within an ``epoch``; a channel that is dropped and created again has a later epoch.

    Positions compare in that order. Epoch 0: not known.
    """

    epoch: int
    execution: int


START = Position(0, 0)


def other_epoch(one: int, another: int) -> bool:
    """Whether positions of these epochs are of two channels; 0 is of any."""
    return bool(one and another and one != another)
