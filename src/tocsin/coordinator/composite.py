"""Several strategies one after the other: emptying a broker comes before balance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tocsin.balancing import strategies
from tocsin.balancing.move import Move
from tocsin.balancing.strategy import Strategy
from tocsin.balancing.trial import Trial
from tocsin.config import CoordinatorConfig


class Stages:
    """The view is shared: a later one sees the load as if the moves of the earlier ones were done."""

    def __init__(self, stages: Sequence[Strategy]) -> None:
        self.stages = stages

    def suggest(self, view: Trial) -> Iterator[Move]:
        for stage in self.stages:
            yield from stage.suggest(view)

    def objective(self, view: Trial) -> float:
        return self.stages[0].objective(view)


def stages(config: CoordinatorConfig) -> Stages:
    main = [strategies.make(config.strategy, **config.settings)] if config.strategy else []
    return Stages([strategies.make("drain"), *main])
