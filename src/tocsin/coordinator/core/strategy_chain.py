"""Several strategies one after the other: emptying a broker comes before balance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies import registry
from tocsin.balancing.strategies.strategy import Strategy
from tocsin.config import CoordinatorConfig


class StrategyChain:
    """The view is shared: a later one sees the load as if the moves of the earlier ones were done."""

    def __init__(self, stages: Sequence[Strategy]) -> None:
        self.stages = stages

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        for stage in self.stages:
            yield from stage.suggest(view)

    def objective(self, view: WhatIf) -> float:
        return self.stages[0].objective(view)


def stages(config: CoordinatorConfig) -> StrategyChain:
    main = [registry.make(config.strategy, **config.settings)] if config.strategy else []
    return StrategyChain([registry.make("drain"), *main])
