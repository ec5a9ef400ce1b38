"""Another strategy or placement at run time, kept across a restart."""

from __future__ import annotations

import inspect

import msgspec

from tocsin.balancing import placement
from tocsin.balancing.regroup_gate import RegroupGate
from tocsin.balancing.strategies import registry
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Choice, Note, Refuse, Reply
from tocsin.coordinator.core.queries import Looking
from tocsin.coordinator.core.strategy_chain import stages
from tocsin.errors import NotFound, TocsinError, UserError


class Switching(Looking):
    def _restored(self, event: ev.Restored) -> None:
        super()._restored(event)
        self._configured = as_configured(self.config)
        kept = event.choice
        if kept is None:
            return
        try:
            if kept.configured == self._configured:
                self._use(kept.strategy, kept.settings, kept.placement)
            else:
                self._out.append(ev.KeepChoice(None))
        except TocsinError as error:
            # A strategy of somebody else's may not be installed any more.
            self._out.append(Note("strategy", f"as configured, not as chosen: {error}"))
            self._out.append(ev.KeepChoice(None))

    def _switch(self, event: ev.Switch) -> None:
        before = self.config
        placing = before.placement if event.placement is None else event.placement
        try:
            if event.strategy is None:
                self._use(before.strategy, before.settings, placing)
            else:
                self._use(event.strategy, event.settings, placing)
        except TocsinError as error:
            self._out.append(Refuse(event.call, error))
            return
        now = self.config
        if event.strategy is not None:
            self._balanced = float("-inf")  # look at the balance with the next tick
            given = ", ".join(f"{name} {value}" for name, value in now.settings.items())
            self._out.append(Note("strategy", f"{now.strategy or 'none'}{' with ' if given else ''}{given}"))
        if event.placement is not None:
            self._out.append(Note("placement", now.placement))
        choice = Choice(now.strategy, dict(now.settings), now.placement, self._configured)
        self._out.append(ev.KeepChoice(None if as_configured(now) == self._configured else choice))
        self._out.append(Reply(event.call, {"strategy": now.strategy, "placement": now.placement}))

    def _use(self, strategy: str, settings: dict[str, float | str], placing: str) -> None:
        check(strategy, settings)
        config = msgspec.structs.replace(self.config, strategy=strategy, settings=settings, placement=placing)
        made, places = stages(config), placement.make(placing)
        self.balancer.strategy, self.balancer.patience = made, RegroupGate()
        self._asked = None  # what is being worked out is the other one's
        if placing != self.config.placement:
            self.placement = places
        self.config = config


def as_configured(config: CoordinatorConfig) -> tuple[str, dict[str, float | str], str]:
    return config.strategy, dict(config.settings), config.placement


def known() -> list[str]:
    """Strategies to choose from; draining is always on."""
    return [name for name in registry.names() if name != "drain"]


def check(strategy: str, settings: dict[str, float | str]) -> None:
    """What ``strategies.make`` would take without a word, and fail at with the first look at the balance."""
    if not strategy:
        if settings:
            raise UserError("no strategy has no settings", hint="leave settings out, or name a strategy")
        return
    if strategy not in known():
        raise NotFound("strategy", strategy, hint=f"there are: {', '.join(known())}, and '' for none")
    parameters = registry.parameters(strategy)
    for name, value in settings.items():
        default = parameters.get(name, inspect.Parameter.empty)
        if default is not inspect.Parameter.empty and isinstance(default, str) != isinstance(value, str):
            kind = "a word" if isinstance(default, str) else "a number"
            raise UserError(f"{name} of {strategy} is {kind}, not {value!r}", hint=f"its default is {default!r}")
