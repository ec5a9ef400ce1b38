"""The catalogues of the places where strategies run. A package adds components as entry points.

An entry point of the group ``tocsin.components`` is called ``place.kind.name`` (``brokers.detector.median``). It leads
to a class or function that makes the component, or to a ``Component``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tocsin.balancing.catalogue.catalogue import Catalogue
from tocsin.balancing.catalogue.component import Component, Kind
from tocsin.errors import NotFound, UserError

GROUP = "tocsin.components"
COORDINATOR, BROKERS, EDGES = "coordinator", "brokers", "edges"
DEADLINE_EDGES, DEADLINE_HEADS = "deadline-edges", "deadline-heads"
#: Written like entry points: what exists does not depend on what was imported.
PLACES = {
    COORDINATOR: "tocsin.balancing.strategies.components:catalogue",
    BROKERS: "tocsin.balancing.brokers.components:catalogue",
    EDGES: "tocsin.balancing.strategies.cheung2006.components:catalogue",
    DEADLINE_EDGES: "tocsin.balancing.deadlines.components:edges",
    DEADLINE_HEADS: "tocsin.balancing.deadlines.components:heads",
}

_registered: dict[str, dict[tuple[Kind, str], Component]] = {place: {} for place in PLACES}


def catalogue(place: str) -> Catalogue:
    if place not in PLACES:
        raise NotFound("place", place, hint=f"strategies run at: {', '.join(PLACES)}")
    module, _, attribute = PLACES[place].partition(":")
    make: Callable[[], Catalogue] = getattr(import_module(module), attribute)
    found = make()
    for each in (*from_packages(place), *_registered[place].values()):
        found.add(each)
    return found


def register(place: str, component: Component) -> None:
    """For components of your own program; an existing name is replaced."""
    catalogue(place)  # refuses a place that does not exist
    _registered[place][component.kind, component.name] = component


@contextmanager
def registered(place: str, *components: Component) -> Iterator[None]:
    """Registers them for a while."""
    before = dict(_registered[place])
    try:
        for each in components:
            register(place, each)
        yield
    finally:
        _registered[place] = before


@cache
def from_packages(place: str) -> tuple[Component, ...]:
    """What is installed does not change while the program runs."""
    return tuple(loaded(point) for point in entry_points(group=GROUP) if point.name.partition(".")[0] == place)


def loaded(point: EntryPoint) -> Component:
    _, _, rest = point.name.partition(".")
    kind, _, name = rest.partition(".")
    if kind not in set(Kind) or not name:
        hint = "call it place.kind.name, such as brokers.detector.median"
        raise UserError(f"the entry point {point.name} of {GROUP} names no component", hint=hint)
    found: Any = point.load()
    return found if isinstance(found, Component) else Component(Kind(kind), name, found)
