"""The reference page of balancing: the components, the strategies made of them, and their eight differentiators."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from itertools import groupby

from markdown_table import table

from tocsin.balancing.brokers import strategies as brokers
from tocsin.balancing.catalogue.blueprint import Blueprint
from tocsin.balancing.catalogue.places import (
    BROKERS,
    COORDINATOR,
    DEADLINE_EDGES,
    DEADLINE_HEADS,
    EDGES,
    PLACES,
    catalogue,
)
from tocsin.balancing.catalogue.use import Use
from tocsin.balancing.catalogue.view import rows, view
from tocsin.balancing.deadlines import strategies as edges
from tocsin.balancing.strategies import registry
from tocsin.balancing.strategies.cheung2006 import components as cheung
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

#: Section 3 of Antoine et al. (2014), as the table heads.
DIFFERENTIATORS = {
    "a": "criteria",
    "b": "load state estimation",
    "c": "decision",
    "d": "method",
    "e": "load moved",
    "f": "target",
    "g": "exchange",
    "h": "recipients",
}
#: `a) criteria: …`, or one text for several: `g), h) exchange and recipients: …`.
ITEM = re.compile(r"^((?:[a-h]\)(?:, )?)+) [^:]+: ", re.MULTILINE)


def differentiators(text: str) -> dict[str, str]:
    """Of the documentation of a module, by letter."""
    items = list(ITEM.finditer(text))
    found = {}
    for item, after in zip(items, [*items[1:], None], strict=True):
        meaning = text[item.end() : len(text) if after is None else after.start()].split("\n\n")[0]
        for letter in re.findall("[a-h]", item[1]):
            found[letter] = " ".join(meaning.split())
    return found


def strategies(place: str) -> dict[str, tuple[Blueprint, str]]:
    """By name: the components, and the module whose documentation has the differentiators."""
    if place == COORDINATOR:
        return {
            name: (registry.make(name).blueprint, at.partition(":")[0])  # type: ignore[attr-defined]
            for name, at in registry.BUILT_IN.items()
        }
    if place == EDGES:
        return {cheung.STRATEGY: (cheung.blueprint(), cheung.__name__)}
    if place in OF:
        return {name: (blueprint, f"tocsin.balancing.strategies.{at}") for name, (blueprint, at) in OF[place].items()}
    found = {}
    for name in brokers.STRATEGIES:
        balancer = brokers.make(name, {}).concerns[-1].balancer
        found[name] = (brokers.blueprint(name, {}), type(balancer).__module__)
    return found


#: Strategies that share a balancer, each with the module that describes it.
OF = {
    DEADLINE_EDGES: {
        "tao": (edges.STRATEGIES["tao"].blueprint, "tao2013.offload"),
        "peer": (edges.STRATEGIES["peer"].blueprint, "tao2013.even_out"),
        "slack": (edges.STRATEGIES["slack"].blueprint, "deadline_slack.slack"),
    },
    DEADLINE_HEADS: {"tao": (edges.OF_HEADS, "tao2013.priorities")},
}


def documentation(module: str) -> str:
    import_module(module)
    return sys.modules[module].__doc__ or ""


def sections() -> list[str]:
    out = []
    for place in PLACES:
        known = strategies(place)
        out += [f"## {TITLES[place]}", "### Components", _components(place), "### Strategies", _compositions(known)]
        out += ["### The eight differentiators", _differentiators(known)]
        if place == EDGES:
            out += [f"### Settings of `{cheung.STRATEGY}`", _parameters()]
    return out


def _parameters() -> str:
    """Table 5.2 of the thesis."""
    default = Parameters()
    return table(
        ["setting", "default"], [[f"`{name}`", f"{getattr(default, name):g}"] for name in default.__struct_fields__]
    )


TITLES = {
    COORDINATOR: "At the coordinator",
    BROKERS: "At brokers that balance among themselves",
    EDGES: "At edges of content subscriptions",
    DEADLINE_EDGES: "At edges, with deadlines",
    DEADLINE_HEADS: "At heads, with deadlines",
}


def _components(place: str) -> str:
    lines = [
        [kind, f"`{name}`", settings, "always" if fixed else "", meaning]
        for kind, name, settings, fixed, meaning in rows(view(catalogue(place)))
    ]
    return table(["kind", "name", "settings (default)", "runs", "what it is"], lines)


def _compositions(known: dict[str, tuple[Blueprint, str]]) -> str:
    lines = []
    for name, (blueprint, _) in known.items():
        uses = blueprint.uses().items()
        cells = [f"{slot}: {_shown(each)}" for slot, each in uses]
        lines.append([f"`{name}`", "<br>".join(cells)])
    return table(["strategy", "its components, by place"], lines)


def _shown(use: Use | tuple[Use, ...]) -> str:
    return f"`{use.name}`" if isinstance(use, Use) else ", ".join(f"`{each.name}`" for each in use)


def _differentiators(known: dict[str, tuple[Blueprint, str]]) -> str:
    lines = []
    for module, names in groupby(known, key=lambda name: known[name][1]):
        found = differentiators(documentation(module))
        lines.append([", ".join(f"`{name}`" for name in names), *(found[letter] for letter in DIFFERENTIATORS)])
    return table(["strategy", *(f"{letter}) {name}" for letter, name in DIFFERENTIATORS.items())], lines)
