"""How an uplink is divided among the output queues of topics: fairly (max-min), as a round robin over queues does.

Queues that need less than an equal share get what they need; the others share the rest equally. So a topic whose rate
has not risen keeps its rate, and what the uplink cannot carry piles up in the queues of the topics that take most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tocsin.balancing.strategies.tao2013.metrics import BYTE, LoadTable


def fair_share(capacity: float, demands: Mapping[str, float]) -> dict[str, float]:
    """What each gets; an infinite demand takes all that it can get."""
    given = dict.fromkeys(demands, 0.0)
    left, waiting = capacity, sorted(demands, key=lambda name: (demands[name], name))
    while waiting:
        equal = left / len(waiting)
        name = waiting.pop(0)
        given[name] = min(demands[name], equal)
        left -= given[name]
    return given


def output_rates(table: LoadTable) -> dict[str, float]:
    """μ of each topic in messages a second for the next second, while rates stay as they were measured."""
    demands = {use.topic: math.inf if use.waiting > 0.0 else use.bits_out for use in table}
    bits = fair_share(table.resources.uplink, demands)
    return {use.topic: bits[use.topic] / (use.size * BYTE) for use in table}
