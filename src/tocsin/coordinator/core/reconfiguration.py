"""Changes strategy and placement at run time; the choice survives a restart."""

from __future__ import annotations

import inspect

from msgspec.structs import replace

from tocsin.balancing import placement as placements
from tocsin.balancing.catalogue.use import Use
from tocsin.balancing.strategies import registry
from tocsin.config import Components, CoordinatorConfig
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Choice, Instruction, Note, Reply
from tocsin.coordinator.core.load_reports import LoadReports
from tocsin.coordinator.core.placement import Placement
from tocsin.coordinator.core.plans import Plans
from tocsin.coordinator.core.strategy_chain import exchanger, guards, running, strategy_chain
from tocsin.errors import NotFound, TocsinError, UserError


class Reconfiguration:
    """``config`` is the configuration in use."""

    def __init__(self, config: CoordinatorConfig, plans: Plans, placement: Placement, reports: LoadReports) -> None:
        self.config, self._plans, self._placement, self._reports = config, plans, placement, reports
        self._configured = changeable(config)

    def restore(self, choice: Choice | None) -> list[Instruction]:
        if choice is None:
            return []
        if (*choice.configured, choice.configured_components) != self._configured:
            return [ev.SaveChoice(None)]
        try:
            self._use(choice.strategy, choice.settings, choice.placement, choice.components)
        except TocsinError as error:
            # A strategy from another package may have been uninstalled.
            return [
                Note("strategy", f"using the configuration, because the choice fails: {error}"),
                ev.SaveChoice(None),
            ]
        return []

    def reconfigure(self, event: ev.Reconfigure, now: float) -> list[Instruction]:
        before = self.config
        placement = before.placement if event.placement is None else event.placement
        if event.strategy is None:
            self._use(before.strategy, before.settings, placement, before.balancing.components)
        else:
            self._use(event.strategy, event.settings, placement, event.components)
        used, out = self.config, list[Instruction]()
        if event.strategy is not None:
            self._plans.evaluate_soon()
            given = [f"{name} {value}" for name, value in used.settings.items()]
            given += [f"{slot} {each}" for slot, each in swapped(used).items()]
            out.append(Note("strategy", f"{used.strategy or 'none'}{' with ' if given else ''}{', '.join(given)}"))
        if event.placement is not None:
            out.append(Note("placement", used.placement))
        configured, swaps = self._configured[:3], self._configured[3]
        choice = Choice(
            used.strategy, dict(used.settings), used.placement, configured, used.balancing.components, swaps
        )
        out.append(ev.SaveChoice(None if changeable(used) == self._configured else choice))
        return [*out, Reply(event.call, {"strategy": used.strategy, "placement": used.placement})]

    def _use(self, strategy: str, settings: dict[str, float | str], placement: str, components: Components) -> None:
        check(strategy, settings)
        config = replace(
            self.config,
            strategy=strategy,
            settings=settings,
            placement=placement,
            balancing=replace(self.config.balancing, components=components),
        )
        chain, kept, exchange = strategy_chain(config), guards(config), exchanger(config)
        placements.make(placement)  # raises before anything has changed
        self._plans.use(strategy, chain, kept)
        self._placement.use(placement)
        self._reports.exchanger = exchange
        self.config = config


def changeable(config: CoordinatorConfig) -> tuple[str, dict[str, float | str], str, Components]:
    return config.strategy, dict(config.settings), config.placement, config.balancing.components


def swapped(config: CoordinatorConfig) -> dict[str, str]:
    """For people: the components that replace the strategy's own."""
    found = {slot: each for slot, each in running(config).items() if slot in config.balancing.components}
    return {slot: str(each) if isinstance(each, Use) else ", ".join(map(str, each)) for slot, each in found.items()}


def known() -> list[str]:
    """Strategies to choose from; draining is always on."""
    return [name for name in registry.names() if name != "drain"]


def check(strategy: str, settings: dict[str, float | str]) -> None:
    """Refuse what ``registry.make`` would accept and the first evaluation would fail with."""
    if not strategy:
        if settings:
            raise UserError("settings require a strategy", hint="leave settings out, or name a strategy")
        return
    if strategy not in known():
        raise NotFound("strategy", strategy, hint=f"there are: {', '.join(known())}, and '' for none")
    parameters = registry.parameters(strategy)
    for name, value in settings.items():
        default = parameters.get(name, inspect.Parameter.empty)
        if default is not inspect.Parameter.empty and isinstance(default, str) != isinstance(value, str):
            kind = "a text" if isinstance(default, str) else "a number"
            raise UserError(f"{name} of {strategy} is {kind}, not {value!r}", hint=f"its default is {default!r}")
