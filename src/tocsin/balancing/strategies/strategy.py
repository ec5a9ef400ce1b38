"""A strategy reads the load and suggests migrations; the balancer decides about each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf


class Strategy(Protocol):
    """``view`` is the load as if all pending migrations were done; it belongs to the strategy, which may change it.

    The balancer takes the suggestions one by one and may stop at any time, so the best come first.
    """

    def suggest(self, view: WhatIf) -> Iterator[Migration]: ...

    def objective(self, view: WhatIf) -> float:
        """What the strategy never makes worse; smaller is better. The contract test checks it."""


class MinMax:
    """The common objective: the largest load of a broker relative to its capacity."""

    def objective(self, view: WhatIf) -> float:
        return view.loads.maximum
