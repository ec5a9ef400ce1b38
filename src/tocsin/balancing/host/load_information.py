"""What peers report to each other about their load."""

from __future__ import annotations

from enum import Enum

import msgspec

from tocsin.balancing.host.actions import Peer, Unit


class LoadState(Enum):
    OVERLOADED = "overloaded"
    NORMAL = "normal"
    UNDERLOADED = "underloaded"


class LoadInformation(msgspec.Struct, frozen=True):
    """The load of one peer by one criterion.

    ``age``: seconds since it was measured, when it is sent; clocks of peers need not agree. ``optimal`` and
    ``threshold`` are the paper's optional elements. ``units``: the loads of what the peer could move.
    """

    peer: Peer
    criterion: str
    load: float
    age: float = 0.0
    optimal: float | None = None
    threshold: float | None = None
    units: tuple[tuple[Unit, float], ...] = ()
