"""The components of one place, and strategies made of them. What cannot work is refused with what would."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from tocsin.balancing.catalogue.blueprint import Blueprint, StageParts
from tocsin.balancing.catalogue.component import Component, Kind, Reach
from tocsin.balancing.catalogue.use import Use
from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.host.load_balancer import check_actions
from tocsin.balancing.host.managers import Concern
from tocsin.errors import NotFound, TocsinError, UserError


@dataclass(frozen=True)
class Parts:
    """The components of a strategy, made. ``units`` and ``advises``: what its balancers need."""

    concerns: list[Concern[Any, Any, Any, Any]]
    exchanger: Any = None
    guards: list[Any] | None = None
    units: bool = False
    advises: bool = False
    model: Any = None


class Catalogue:
    """``place``: where these components run. ``executes``: what a host can carry out there."""

    def __init__(self, place: str, components: Iterable[Component], executes: Collection[ActionKind]) -> None:
        self.place, self.executes = place, frozenset(executes)
        self._components: dict[Kind, dict[str, Component]] = {kind: {} for kind in Kind}
        for each in components:
            self.add(each)

    def __iter__(self) -> Iterator[Component]:
        return (each for kind in Kind for each in self._components[kind].values())

    def add(self, component: Component) -> None:
        self._components[component.kind][component.name] = component

    def component(self, kind: Kind, name: str) -> Component:
        known = self._components[kind]
        if name not in known:
            there = ", ".join(each.name for each in known.values() if kind is Kind.CRITERION or not each.fixed)
            raise NotFound(str(kind), name, hint=f"at {self.place} there are: {there}")
        return known[name]

    # Strategies.

    def compose(self, blueprint: Blueprint, components: Mapping[str, Any] | None = None) -> tuple[Blueprint, Parts]:
        """The strategy with these components instead of its own."""
        changed = blueprint.swapped(components or {})
        try:
            return changed, self.build(changed)
        except NotFound:
            raise
        except UserError as error:
            # To change another component as well may be what is missing.
            slots = dict.fromkeys([*(components or ()), *changed.slots])
            fitting = {slot: self.fitting(changed, slot) for slot in slots}
            fits = [f"as {slot} would fit: {', '.join(names)}" for slot, names in fitting.items() if names]
            raise UserError(error.message, hint="; ".join([*filter(None, [error.hint]), *fits])) from error

    def fitting(self, blueprint: Blueprint, slot: str) -> list[str]:
        """The components that would work there, with their default settings."""
        found = []
        for each in self._components[blueprint.slots[slot].kind].values():
            try:
                self.build(blueprint.with_use(slot, each.example()))
            except TocsinError:
                continue
            found.append(each.name)
        return found

    def build(self, blueprint: Blueprint) -> Parts:
        """A detector and an exchanger come before the balancers that ask them."""
        detectors = [self._detector(stage) for stage in blueprint.stages]
        exchanger = None
        if blueprint.exchanger is not None:
            asked = {Kind.DETECTOR: detectors[-1]} if detectors else {}
            exchanger = self._made(Kind.EXCHANGER, blueprint.exchanger, asked)
            self._check_reach(blueprint, blueprint.exchanger)
        concerns, used = [], []
        for stage, detector in zip(blueprint.stages, detectors, strict=True):
            balancer = self._made(Kind.BALANCER, stage.balancer, {Kind.DETECTOR: detector, Kind.EXCHANGER: exchanger})
            self._check_stage(stage, detector, balancer)
            concerns.append(Concern(stage.criterion, detector, balancer))
            used.append(self.component(Kind.BALANCER, stage.balancer.name))
        guards = None if blueprint.guards is None else self.guards(blueprint.guards)
        units, advises = any(each.units for each in used), any(each.advises for each in used)
        model = None if blueprint.model is None else self._made(Kind.MODEL, blueprint.model, {})
        return Parts(concerns, exchanger, guards, units, advises, model)

    def guards(self, uses: Iterable[Use]) -> list[Any]:
        return [self._made(Kind.GUARD, each, {}) for each in uses]

    def exchanger(self, use: Use) -> Any:
        """Where it is the host's, and not the strategy's."""
        return self._made(Kind.EXCHANGER, use, {})

    def named(self, made: Iterable[Any]) -> tuple[Use, ...]:
        """The names and settings of guards that were made elsewhere."""
        known = {each.make: each.name for each in self._components[Kind.GUARD].values()}
        return tuple(
            Use(known.get(type(each), type(each).__name__), {f.name: getattr(each, f.name) for f in fields(each)})
            if is_dataclass(each)
            else Use(type(each).__name__)
            for each in made
        )

    def _detector(self, stage: StageParts) -> Any:
        criterion = self.component(Kind.CRITERION, stage.criterion)
        for kind, use in ((Kind.DETECTOR, stage.detector), (Kind.BALANCER, stage.balancer)):
            component = self.component(kind, use.name)
            if component.criteria is not None and criterion.name not in component.criteria:
                works = " and ".join(sorted(component.criteria))
                raise UserError(f"{kind} {use.name} works on {works}, and not on {criterion.name}")
        return self._made(Kind.DETECTOR, stage.detector, {})

    def _made(self, kind: Kind, use: Use, parts: Mapping[Kind, Any]) -> Any:
        component = self.component(kind, use.name)
        if component.fixed:
            raise UserError(f"{kind} {use.name} cannot be chosen", hint=component.description)
        if component.unknown:
            hint = "a component takes numbers, texts, and the strategy's detector and exchanger"
            raise UserError(f"{kind} {use.name} cannot be made without {', '.join(component.unknown)}", hint=hint)
        given: dict[str, Any] = dict(component.checked(use))
        for needed, type_ in component.needs.items():
            if not isinstance(parts.get(needed), type_):
                raise UserError(f"{kind} {use.name} does not work with the {needed} of this strategy")
            given[str(needed)] = parts[needed]
        return component.make(**given)

    def _check_reach(self, blueprint: Blueprint, exchanger: Use) -> None:
        reach = self.component(Kind.EXCHANGER, exchanger.name).reach
        used = [(Kind.DETECTOR, stage.detector) for stage in blueprint.stages]
        used += [(Kind.BALANCER, stage.balancer) for stage in blueprint.stages]
        for kind, use in used:
            needed = self.component(kind, use.name).reach
            if needed > reach:
                other = "every peer" if needed is Reach.EVERY_PEER else "directories"
                raise UserError(
                    f"{kind} {use.name} needs the load of all peers at {other}, where exchanger {exchanger.name} does "
                    "not bring it"
                )

    def _check_stage(self, stage: StageParts, detector: Any, balancer: Any) -> None:
        detects, acts = stage.detector.name, stage.balancer.name
        check_actions([balancer], self.executes)
        finds = getattr(detector, "finds", self.component(Kind.DETECTOR, detects).finds)
        acts_on = self.component(Kind.BALANCER, acts).acts_on
        if not finds & acts_on:
            words = " or ".join(sorted(state.value for state in acts_on))
            raise UserError(f"balancer {acts} acts where a peer is {words}, which detector {detects} never finds")
