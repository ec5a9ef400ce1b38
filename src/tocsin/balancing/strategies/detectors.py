"""Imbalance detectors of the host that decides about all brokers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.model.what_if import DRAINING
from tocsin.balancing.strategies.strategy import View
from tocsin.errors import UserError


@dataclass
class Cov:
    """The coefficient of variation exceeds ``alpha``, and the mean ``beta``, below which imbalance does no harm.

    Loads are relative to capacity. Brokers that are draining or gone do not count.
    """

    alpha: float = 0.15
    beta: float = 0.0

    def make_decision(self, scope: View, criterion: str) -> LoadState:
        view = scope.model
        relative = view.relative if view.all_live else view.relative[view.live]
        if not len(relative):
            return LoadState.NORMAL
        mu = float(relative.sum()) / len(relative)
        sigma = math.sqrt(max(0.0, float(relative @ relative) / len(relative) - mu * mu))
        return LoadState.OVERLOADED if mu > self.beta and sigma > self.alpha * mu else LoadState.NORMAL


@dataclass
class Draining:
    """A broker that is being drained still has subscribers."""

    def make_decision(self, scope: View, criterion: str) -> LoadState:
        return LoadState.OVERLOADED if scope.model.measure(DRAINING) else LoadState.NORMAL


@dataclass
class Newcomer:
    """A broker that accepts subscribers is below ``share`` of the mean."""

    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.share < float("inf"):
            raise UserError(f"share is {self.share!r}", hint="use 0 or more")

    def make_decision(self, scope: View, criterion: str) -> LoadState:
        view = scope.model
        new = view.live.any() and bool((view.accepts & (view.relative < self.share * view.mean)).any())
        return LoadState.UNDERLOADED if new else LoadState.NORMAL
