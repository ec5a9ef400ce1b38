"""What the coordinator's host consists of, by the configuration: draining comes before balance."""

from __future__ import annotations

from typing import Any

from tocsin.balancing.catalogue.blueprint import GUARDS, Blueprint
from tocsin.balancing.catalogue.component import Kind
from tocsin.balancing.catalogue.places import COORDINATOR, catalogue
from tocsin.balancing.catalogue.use import Use, read, read_all
from tocsin.balancing.central_guards import CentralGuard, guards_of
from tocsin.balancing.decisions import Limits
from tocsin.balancing.strategies import registry
from tocsin.balancing.strategies.exchangers import CentralExchanger, check_longest
from tocsin.balancing.strategies.strategy import StagedStrategy, Strategy, stages
from tocsin.config import CoordinatorConfig
from tocsin.errors import UserError

EXCHANGER = str(Kind.EXCHANGER)


def strategy_chain(config: CoordinatorConfig) -> StagedStrategy:
    drain = registry.make("drain")
    if not (config.strategy and config.balancing.mode == "coordinator"):
        if swaps(config):
            hint = "name a strategy; without one, only guards and the exchanger can be chosen"
            raise UserError("components require a strategy of the coordinator", hint=hint)
        return StagedStrategy(stages(drain), names(drain))
    chosen = registry.make(config.strategy, **config.settings)
    if swaps(config):
        blueprint, parts = catalogue(COORDINATOR).compose(names(chosen), swaps(config))
        chosen = StagedStrategy(parts.concerns, blueprint)
    together = Blueprint((*names(drain).stages, *names(chosen).stages))
    return StagedStrategy([*stages(drain), *stages(chosen)], together)


def names(strategy: Strategy) -> Blueprint:
    """None of a strategy in one piece."""
    return strategy.blueprint if isinstance(strategy, StagedStrategy) else Blueprint(())


def swaps(config: CoordinatorConfig) -> dict[str, Any]:
    """Guards and the exchanger are the host's, and not the strategy's."""
    return {slot: given for slot, given in config.balancing.components.items() if slot not in (GUARDS, EXCHANGER)}


def exchange(config: CoordinatorConfig) -> Use:
    return read(EXCHANGER, config.balancing.components.get(EXCHANGER, "reports"))


def exchanger(config: CoordinatorConfig) -> CentralExchanger:
    made: CentralExchanger = catalogue(COORDINATOR).exchanger(exchange(config))
    check_longest(made, config.interval, config.gone_after)
    return made


def guards(config: CoordinatorConfig) -> list[CentralGuard]:
    """By default those of the limits."""
    if GUARDS in config.balancing.components:
        return catalogue(COORDINATOR).guards(read_all(GUARDS, config.balancing.components[GUARDS]))
    limits = config.limits
    return guards_of(Limits(limits.in_flight, limits.per_broker, limits.cool_down, limits.least_gain))


def running(config: CoordinatorConfig) -> dict[str, Use | tuple[Use, ...]]:
    """The components in use, by place."""
    found = names(strategy_chain(config)).uses()
    return {**found, EXCHANGER: exchange(config), GUARDS: catalogue(COORDINATOR).named(guards(config))}
