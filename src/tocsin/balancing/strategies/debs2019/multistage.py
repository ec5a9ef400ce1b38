"""The paper's combination (DEBS 2019, Algorithm 1): a shuffle in an extreme imbalance, then migration in a medium one.

As printed, the second condition is tested after the first stage: a shuffle that leaves cov above α is followed by
migrations in the same plan. Placement, the paper's first stage, happens when a subscriber connects (placement.py).

a) criteria: the load relative to capacity.
b) load state estimation: cov > γ and μ > θ (shuffle), then cov > α and μ > β (migration).
c) decision: with each evaluation of the coordinator.
d) method: subscribers migrate.
e) load moved: all subscribers that the shuffle places at another broker; then the heaviest of the most loaded broker.
f) target: the least loaded broker, or in the second stage the most similar one, by the scheme.
g), h) exchange and recipients: brokers report to the coordinator.
"""

from __future__ import annotations

from tocsin.balancing.catalogue.blueprint import StageParts
from tocsin.balancing.catalogue.use import use
from tocsin.balancing.model.what_if import LOAD
from tocsin.balancing.strategies.strategy import StagedStrategy, composed
from tocsin.errors import UserError

SCHEMES = ("ldm", "sdm")


def multistage(
    scheme: str = "ldm", alpha: float = 0.15, beta: float = 0.0, gamma: float = 0.5, theta: float = 0.0
) -> StagedStrategy:
    """The paper's γ, θ (shuffle), α, β (migration) and scheme."""
    if scheme not in SCHEMES:
        raise UserError(f"there is no migration scheme {scheme!r}", hint=f"use {' or '.join(SCHEMES)}")
    return composed(
        StageParts("shuffle", LOAD, use("cov", alpha=gamma, beta=theta), use("gsh")),
        StageParts("migrate", LOAD, use("cov", alpha=alpha, beta=beta), use(scheme)),
    )
