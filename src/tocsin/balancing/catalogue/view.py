"""What exists at a place, and what runs there, for programs and people."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tocsin.balancing.catalogue.blueprint import GUARDS, MODEL
from tocsin.balancing.catalogue.catalogue import Catalogue
from tocsin.balancing.catalogue.component import Component, Kind
from tocsin.balancing.catalogue.use import Use, shown

Running = Mapping[str, Use | tuple[Use, ...]]


class SettingView(Struct, frozen=True):
    """``default`` is None if it has to be given."""

    type: str
    default: float | str | None


class ComponentView(Struct, frozen=True):
    """``fixed``: always there, and not to be chosen. ``runs_as``: its places in the strategy that runs."""

    kind: str
    name: str
    description: str
    settings: dict[str, SettingView]
    fixed: bool
    runs_as: list[str]


class UseView(Struct, frozen=True):
    use: str
    settings: dict[str, float | str]


class CatalogueView(Struct, frozen=True):
    """``strategy`` is '' where none runs, and ``running`` says what does run, by place in the strategy."""

    place: str
    strategy: str
    running: dict[str, UseView | list[UseView]]
    components: list[ComponentView]


def view(catalogue: Catalogue, strategy: str = "", running: Running | None = None) -> CatalogueView:
    uses = running or {}
    return CatalogueView(
        catalogue.place,
        strategy,
        {slot: _use(each) if isinstance(each, Use) else [_use(one) for one in each] for slot, each in uses.items()},
        [_component(each, uses) for each in catalogue],
    )


def _component(component: Component, running: Running) -> ComponentView:
    settings = {name: SettingView(each.type.__name__, each.default) for name, each in component.settings.items()}
    slots = []
    for slot, each in running.items():
        names = [each.name] if isinstance(each, Use) else [one.name for one in each]
        if kind_of(slot) is component.kind and component.name in names:
            slots.append(slot)
    return ComponentView(str(component.kind), component.name, component.description, settings, component.fixed, slots)


def kind_of(slot: str) -> Kind:
    named = {GUARDS: Kind.GUARD, MODEL: Kind.MODEL}
    return named[slot] if slot in named else Kind(slot.rpartition("_")[2])


def _use(use: Use) -> UseView:
    return UseView(use.name, dict(use.settings))


def rows(found: CatalogueView) -> list[list[str]]:
    """The rows of a table: kind, name, settings, where it runs, what it is."""
    return [
        [
            each.kind,
            each.name,
            ", ".join(f"{name} ({_default(one)})" for name, one in each.settings.items()),
            ", ".join(each.runs_as) or ("always" if each.fixed and each.kind != Kind.CRITERION else ""),
            each.description,
        ]
        for each in found.components
    ]


def _default(setting: SettingView) -> str:
    return "required" if setting.default is None else shown(setting.default)
