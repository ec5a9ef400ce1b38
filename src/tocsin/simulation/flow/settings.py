"""Settings of a flow simulation: the coordinator's configuration, and the time a migration takes."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

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


class Settings(Struct, frozen=True):
    """``delay``: seconds from an order to the subscriber's arrival."""

    config: CoordinatorConfig
    delay: float = 0.5


def settings(
    strategy: str = "peal",
    placement: str = "two-choices",
    *,
    limits: CoordinatorLimits | None = None,
    delay: float = 0.5,
    interval: float = 2.0,
    balance_every: float = 10.0,
    **parameters: Any,
) -> Settings:
    """``parameters`` are those of the strategy; without ``limits`` they are the coordinator's own."""
    config = CoordinatorConfig(
        placement=placement,
        strategy=strategy,
        settings=parameters,
        interval=interval,
        balance_every=balance_every,
        limits=limits or CoordinatorLimits(),
    )
    return Settings(config, delay)
