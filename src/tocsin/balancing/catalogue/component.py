"""A component that strategies can be made of: its name, its settings, and what it needs of the others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Any

from tocsin.balancing.catalogue.use import Use, shown
from tocsin.balancing.host.load_information import LoadState
from tocsin.errors import UserError

ALL_STATES = frozenset(LoadState) - {LoadState.NORMAL}
HEAVY, LIGHT = frozenset({LoadState.OVERLOADED}), frozenset({LoadState.UNDERLOADED})


class Kind(StrEnum):
    MODEL = "load model"
    CRITERION = "criterion"
    EXCHANGER = "exchanger"
    DETECTOR = "detector"
    BALANCER = "balancer"
    GUARD = "guard"
    ACTION = "action"


class Reach(IntEnum):
    """Who gets the load of all peers from an exchanger, and who has to get it for a detector or balancer to work."""

    NO_PEER = 0
    DIRECTORIES = 1
    EVERY_PEER = 2


@dataclass(frozen=True)
class Setting:
    """Without a ``default`` it has to be given."""

    name: str
    type: type[float] | type[int] | type[str]
    default: float | str | None

    def checked(self, owner: str, value: Any) -> float | str:
        text = self.type is str
        fits = isinstance(value, str) if text else isinstance(value, int | float) and not isinstance(value, bool)
        if fits and self.type is int:
            fits = float(value).is_integer()
        if fits and not text:
            fits = value == value  # not NaN
        if not fits:
            what = {str: "a text", int: "a whole number", float: "a number"}[self.type]
            hint = "it has no default" if self.default is None else f"its default is {shown(self.default)}"
            raise UserError(f"{self.name} of {owner} is {what}, not {value!r}", hint=hint)
        return value if text else self.type(value)


@dataclass(frozen=True)
class Component:
    """``make`` takes settings (numbers and texts), and the strategy's ``detector`` and ``exchanger``, if it has such a
    parameter and they have its type.

    ``criteria``: those that it can work on, by default all. ``finds``: what a detector finds. ``acts_on``: what a
    balancer acts on. ``reach``: of an exchanger, or what others need of it. ``units``: a balancer needs the load
    of each unit in reports. ``advises``: it decides for other peers too. ``fixed``: it is there and cannot be chosen.
    """

    kind: Kind
    name: str
    make: Callable[..., Any]
    criteria: frozenset[str] | None = None
    finds: frozenset[LoadState] = ALL_STATES
    acts_on: frozenset[LoadState] = ALL_STATES
    reach: Reach = Reach.NO_PEER
    units: bool = False
    advises: bool = False
    fixed: bool = False
    text: str = ""

    @property
    def description(self) -> str:
        """The first paragraph of its documentation, in one line."""
        paragraph = (self.text or inspect.getdoc(self.make) or "").split("\n\n")[0]
        return " ".join(paragraph.replace("``", "`").split())

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return {} if self.fixed else inspect.signature(self.make, eval_str=True).parameters

    @cached_property
    def settings(self) -> dict[str, Setting]:
        found = {}
        for name, each in self._parameters.items():
            if each.annotation in (float, int, str):
                default = None if each.default is inspect.Parameter.empty else each.default
                found[name] = Setting(name, each.annotation, default)
        return found

    @cached_property
    def needs(self) -> dict[Kind, type]:
        """The parts of the strategy that it gets, and their types."""
        kinds = {Kind.DETECTOR, Kind.EXCHANGER}
        return {kind: self._parameters[kind].annotation for kind in kinds if kind in self._parameters}

    @cached_property
    def unknown(self) -> list[str]:
        """Parameters without a default that no configuration can give."""
        known = {*self.settings, *map(str, self.needs)}
        ordinary = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        required = [each.name for each in self._parameters.values() if each.default is each.empty]
        return [name for name in required if name not in known and self._parameters[name].kind in ordinary]

    def checked(self, use: Use) -> dict[str, float | str]:
        """The settings of this use, with the right types."""
        owner = f"{self.kind} {self.name}"
        for name in use.settings:
            if name not in self.settings:
                known = ", ".join(self.settings) or "none"
                raise UserError(f"{owner} has no setting {name!r}", hint=f"it has: {known}")
        for name, each in self.settings.items():
            if each.default is None and name not in use.settings:
                raise UserError(f"{owner} needs its setting {name}", hint=f'{{ use = "{self.name}", {name} = … }}')
        return {name: self.settings[name].checked(owner, value) for name, value in use.settings.items()}

    def example(self) -> Use:
        """A use with the settings that have to be given: 1 is right for all numbers."""
        return Use(self.name, {name: 1.0 for name, each in self.settings.items() if each.default is None})
