"""The paper's combination (DEBS 2019, Algorithm 1): a shuffle in an extreme imbalance, then migration in a medium one.

As printed, the second condition is tested after the first stage: a shuffle that leaves cov above α is followed by
migrations in the same plan. Placement, the paper's first stage, happens when a subscriber connects (placement.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from tocsin.balancing.model.migration import Migration, collapsed
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.debs2019.dynamic_migration import DynamicMigration
from tocsin.balancing.strategies.debs2019.gsh import GSH
from tocsin.balancing.strategies.debs2019.ldm import LDM
from tocsin.balancing.strategies.debs2019.sdm import SDM
from tocsin.balancing.strategies.strategy import MinMax
from tocsin.errors import UserError

SCHEMES: dict[str, type[DynamicMigration]] = {"ldm": LDM, "sdm": SDM}


@dataclass
class Multistage(MinMax):
    """The paper's γ, θ (shuffle), α, β (migration) and scheme."""

    scheme: str = "ldm"
    alpha: float = 0.15
    beta: float = 0.0
    gamma: float = 0.5
    theta: float = 0.0

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise UserError(f"there is no migration scheme {self.scheme!r}", hint=f"use {' or '.join(SCHEMES)}")

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        at = view.at.copy()
        migration = SCHEMES[self.scheme](self.alpha, self.beta)
        yield from collapsed(at, chain(GSH(self.gamma, self.theta).play(view), migration.play(view)))
