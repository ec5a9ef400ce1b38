"""Strategies by name. A package registers its own as an entry point of the group ``tocsin.strategies``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from tocsin.balancing.strategies.strategy import Strategy
from tocsin.errors import NotFound, UserError

GROUP = "tocsin.strategies"

#: The built-in ones, written like entry points.
BUILT_IN = {
    "ldm": "tocsin.balancing.strategies.debs2019.ldm:ldm",
    "sdm": "tocsin.balancing.strategies.debs2019.sdm:sdm",
    "gsh": "tocsin.balancing.strategies.debs2019.gsh:gsh",
    "multistage": "tocsin.balancing.strategies.debs2019.multistage:multistage",
    "drain": "tocsin.balancing.strategies.drain:drain",
    "join": "tocsin.balancing.strategies.join:join",
    "peal": "tocsin.balancing.strategies.peal.peal:peal",
}

_registered: dict[str, Callable[..., Strategy]] = {}


def register(name: str, factory: Callable[..., Strategy]) -> None:
    """For strategies of your own program; an existing name is replaced."""
    _registered[name] = factory


@contextmanager
def registered(name: str, factory: Callable[..., Strategy]) -> Iterator[None]:
    """Registers a strategy for a while: an experiment leaves nothing to others."""
    before = dict(_registered)
    register(name, factory)
    try:
        yield
    finally:
        _registered.clear()
        _registered.update(before)


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
