"""What offloading some subscribers of one subscription would bring (section 4.2.1)."""

from __future__ import annotations

import msgspec


class ReportCard(msgspec.Struct, frozen=True):
    """``difference``: of the two brokers' loads afterwards; below 0 the offloading broker is the less loaded one.

    ``extra_traffic``: what match offload adds, its output rate and the acceptor's extra input. ``reducible``: what
    output offload adds, the rate that would be saved here if all subscribers could go.
    """

    subscription: int
    subscribers: int
    difference: float
    covered: bool
    reduced: float
    output: float
    extra_traffic: float = 0.0
    reducible: float = 0.0
    gamma: float = 0.0
