"""What a strategy is: it looks at the load and suggests moves. Whether they happen is the balancer's decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf


class Strategy(Protocol):
    """``view`` is the load as if all pending moves were done; it belongs to the strategy, which may move in it freely.

    The moves are asked for one by one and may be stopped at any time, so the best come first.
    """

    def suggest(self, view: WhatIf) -> Iterator[Migration]: ...

    def objective(self, view: WhatIf) -> float:
        """What the strategy never makes worse, smaller is better: the contract test holds it to that."""


class MinMax:
    """The common objective: the largest load of a broker relative to its capacity."""

    def objective(self, view: WhatIf) -> float:
        return view.loads.maximum
