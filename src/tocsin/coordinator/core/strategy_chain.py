"""Several strategies one after the other: draining comes before balance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies import registry
from tocsin.balancing.strategies.strategy import Strategy
from tocsin.config import CoordinatorConfig


class StrategyChain:
    """The view is shared: each strategy sees the load as if the migrations of the earlier ones were done."""

    def __init__(self, strategies: Sequence[Strategy]) -> None:
        self.strategies = strategies

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        for strategy in self.strategies:
            yield from strategy.suggest(view)

    def objective(self, view: WhatIf) -> float:
        return self.strategies[0].objective(view)


def strategy_chain(config: CoordinatorConfig) -> StrategyChain:
    chosen = [registry.make(config.strategy, **config.settings)] if config.strategy else []
    return StrategyChain([registry.make("drain"), *chosen])
