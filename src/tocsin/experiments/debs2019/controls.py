"""Broken versions of the paper's strategies: a verdict that survives one of them says nothing.

They are in no registry: ``Runs`` gets them explicitly, by the name of the strategy that each replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import TypeAlias

import numpy as np

from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.managers import Concern
from tocsin.balancing.model.arrays import Flags, Longs
from tocsin.balancing.model.what_if import LOAD, WhatIf
from tocsin.balancing.strategies.debs2019.dynamic_migration import LESS, DynamicMigration, Route, most_similar
from tocsin.balancing.strategies.debs2019.gsh import GSH
from tocsin.balancing.strategies.debs2019.ldm import LDM
from tocsin.balancing.strategies.debs2019.sdm import SDM
from tocsin.balancing.strategies.detectors import Cov
from tocsin.balancing.strategies.strategy import StagedStrategy, View

#: Makes strategies, by the name of the one that each replaces.
Controls: TypeAlias = Mapping[str, Callable[..., StagedStrategy]]
Scheme: TypeAlias = Callable[[], DynamicMigration]
Shuffle: TypeAlias = Callable[[], GSH | DynamicMigration]


class Nothing(DynamicMigration):
    def _goals(self, view: WhatIf, open_: Flags) -> Longs:
        return np.empty(0, dtype=np.int64)


class ByChance(DynamicMigration):
    """The destination is any other broker. Runs of different ``seed`` differ."""

    _reason = "LDM, but to any broker"

    def __init__(self, seed: int = 0) -> None:
        self._rng = Random(seed)

    def _goals(self, view: WhatIf, open_: Flags) -> Longs:
        brokers = np.flatnonzero(open_)
        return brokers[[self._rng.randrange(len(brokers))]] if len(brokers) else brokers


class LightestFirst(LDM):
    """The lightest subscriber of the most loaded broker that has a valid migration."""

    _reason = "LDM, but the lightest first"

    def select_load_to_move(
        self, scope: View, criterion: str, state: LoadState, target: Route
    ) -> tuple[int, int] | None:
        view, (b, goals) = scope.model, target
        limit = float(view.relative[b]) * LESS
        here = view.subscribers(b)
        for u in here[np.argsort(view.u[here], kind="stable")].tolist():
            best, added = most_similar(view, u, goals)
            goal = int(goals[best])
            if added > 0 and float(view.relative[goal]) + added / float(view.capacity[goal]) < limit:
                return u, goal
        return None


def controls(ldm: Scheme = LDM, sdm: Scheme = SDM, shuffle: Shuffle = GSH) -> Controls:
    """The paper's strategies that have one of these parts, with it instead of their own."""
    found: dict[str, Callable[..., StagedStrategy]] = {"multistage": partial(both, {"ldm": ldm, "sdm": sdm}, shuffle)}
    if ldm is not LDM:
        found["ldm"] = partial(migrating, ldm)
    if sdm is not SDM:
        found["sdm"] = partial(migrating, sdm)
    if shuffle is not GSH:
        found["gsh"] = partial(shuffling, shuffle)
    return found


def migrating(part: Scheme, alpha: float, beta: float) -> StagedStrategy:
    return StagedStrategy([Concern(LOAD, Cov(alpha, beta), part())])


def shuffling(part: Shuffle, gamma: float, theta: float) -> StagedStrategy:
    return StagedStrategy([Concern(LOAD, Cov(gamma, theta), part())])


def both(
    parts: Mapping[str, Scheme], shuffle: Shuffle, scheme: str, alpha: float, beta: float, gamma: float, theta: float
) -> StagedStrategy:
    first, second = shuffling(shuffle, gamma, theta), migrating(parts[scheme], alpha, beta)
    return StagedStrategy([*first.stages, *second.stages])


#: Run beside LDM, under names that no registry has.
BESIDE: Controls = {
    "ldm-any-broker": partial(migrating, ByChance),
    "ldm-lightest-first": partial(migrating, LightestFirst),
}
#: What can be broken, and the strategies with it.
SABOTAGES: dict[str, Controls] = {
    "LDM and SDM do nothing": controls(Nothing, Nothing),
    "LDM and SDM migrate to any broker": controls(partial(ByChance, 1), partial(ByChance, 2)),
    "LDM and SDM migrate the lightest first": controls(LightestFirst, LightestFirst),
    "SDM is LDM": controls(sdm=LDM),
    "GSH does nothing": controls(shuffle=Nothing),
}
