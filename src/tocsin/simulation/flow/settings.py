"""Settings of a flow simulation: the coordinator's configuration."""

from __future__ import annotations

from typing import Any

from tocsin.config import CoordinatorConfig, CoordinatorLimits

NO_LIMIT = 2**31 - 1
#: The paper's system carries out a whole plan at once, without a cool-down.
PAPER = CoordinatorLimits(
    in_flight=NO_LIMIT,
    per_broker=NO_LIMIT,
    per_second=float(NO_LIMIT),
    cool_down=0.0,
    least_gain=0.0,
    migration_timeout=3600.0,
)


def settings(
    strategy: str = "peal",
    placement: str = "two-choices",
    *,
    limits: CoordinatorLimits | None = None,
    **parameters: Any,
) -> CoordinatorConfig:
    """``parameters`` are those of the strategy; without ``limits`` they are the coordinator's own."""
    return CoordinatorConfig(
        placement=placement, strategy=strategy, settings=parameters, limits=limits or CoordinatorLimits()
    )
