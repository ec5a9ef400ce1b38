"""Strategies by name. A package registers its own as an entry point of the group ``tocsin.strategies``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from tocsin.balancing.strategies.strategy import Strategy
from tocsin.errors import NotFound, UserError

GROUP = "tocsin.strategies"

#: The built-in ones, written like entry points.
BUILT_IN = {
    "ldm": "tocsin.balancing.strategies.debs2019.ldm:LDM",
    "sdm": "tocsin.balancing.strategies.debs2019.sdm:SDM",
    "gsh": "tocsin.balancing.strategies.debs2019.gsh:GSH",
    "multistage": "tocsin.balancing.strategies.debs2019.multistage:Multistage",
    "drain": "tocsin.balancing.strategies.drain:Drain",
    "join": "tocsin.balancing.strategies.join:Join",
    "peal": "tocsin.balancing.strategies.peal.peal:Peal",
}

_registered: dict[str, Callable[..., Strategy]] = {}


def register(name: str, factory: Callable[..., Strategy]) -> None:
    """For strategies of your own program; an existing name is replaced."""
    _registered[name] = factory


def names() -> list[str]:
    return sorted({*BUILT_IN, *_registered, *(point.name for point in entry_points(group=GROUP))})


def factory(name: str) -> Callable[..., Strategy]:
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        made: Callable[..., Strategy] = getattr(import_module(module), attribute)
        return made
    for point in entry_points(group=GROUP, name=name):
        loaded: Callable[..., Strategy] = point.load()
        return loaded
    raise NotFound("strategy", name, hint=f"there are: {', '.join(names())}")


def parameters(name: str) -> dict[str, Any]:
    """The parameters of a strategy with their defaults."""
    found = inspect.signature(factory(name)).parameters
    return {key: value.default for key, value in found.items()}


def make(name: str, **settings: Any) -> Strategy:
    """The strategy of this name with these parameters, as a configuration gives them."""
    known = parameters(name)
    if unknown := sorted(set(settings) - set(known)):
        hint = f"it takes: {', '.join(known) or 'none'}"
        raise UserError(f"strategy {name!r} has no parameter {', '.join(unknown)}", hint=hint)
    return factory(name)(**settings)
