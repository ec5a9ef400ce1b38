"""A strategy as the names of its components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tocsin.balancing.catalogue.component import Kind
from tocsin.balancing.catalogue.use import Use, read, read_all
from tocsin.errors import NotFound

GUARDS, MODEL = "guards", "model"
#: The stage whose components need no prefix.
MAIN = "balance"


@dataclass(frozen=True)
class StageParts:
    """One criterion, and what detects and repairs its imbalance. ``fixed``: it is no matter of choice."""

    name: str
    criterion: str
    detector: Use
    balancer: Use
    fixed: bool = False

    def slot(self, kind: Kind) -> str:
        return str(kind) if self.name == MAIN else f"{self.name}_{kind}"


@dataclass(frozen=True)
class Slot:
    """A place in a strategy: the kind of component that it takes, and the number of its stage if it belongs to one."""

    kind: Kind
    stage: int | None = None


@dataclass(frozen=True)
class Blueprint:
    """Stages in order of priority. ``exchanger`` and ``model``: None where they are no matter of choice."""

    stages: tuple[StageParts, ...]
    exchanger: Use | None = None
    guards: tuple[Use, ...] | None = None
    model: Use | None = None

    @property
    def slots(self) -> dict[str, Slot]:
        """What can be exchanged, by name."""
        found = {}
        for number, stage in enumerate(self.stages):
            for kind in (Kind.CRITERION, Kind.DETECTOR, Kind.BALANCER):
                if not stage.fixed:
                    found[stage.slot(kind)] = Slot(kind, number)
        if self.exchanger is not None:
            found[str(Kind.EXCHANGER)] = Slot(Kind.EXCHANGER)
        if self.guards is not None:
            found[GUARDS] = Slot(Kind.GUARD)
        if self.model is not None:
            found[MODEL] = Slot(Kind.MODEL)
        return found

    def swapped(self, components: Mapping[str, Any]) -> Blueprint:
        """With these components instead, as a configuration gives them."""
        found = self
        for name, given in components.items():
            if name not in self.slots:
                hint = f"this strategy has: {', '.join(self.slots) or 'none, it is in one piece'}"
                raise NotFound("component", name, hint=hint)
            if name == GUARDS:
                found = replace(found, guards=read_all(name, given))
            else:
                found = found.with_use(name, read(name, given))
        return found

    def with_use(self, name: str, use: Use) -> Blueprint:
        slot = self.slots[name]
        if slot.kind is Kind.GUARD:
            return replace(self, guards=(use,))
        if slot.kind is Kind.MODEL:
            return replace(self, model=use)
        if slot.stage is None:
            return replace(self, exchanger=use)
        stages = list(self.stages)
        stage = stages[slot.stage]
        if slot.kind is Kind.CRITERION:
            stages[slot.stage] = replace(stage, criterion=use.name)
        elif slot.kind is Kind.DETECTOR:
            stages[slot.stage] = replace(stage, detector=use)
        else:
            stages[slot.stage] = replace(stage, balancer=use)
        return replace(self, stages=tuple(stages))

    def uses(self) -> dict[str, Use | tuple[Use, ...]]:
        """What runs, by place; with the fixed stages."""
        found: dict[str, Use | tuple[Use, ...]] = {}
        for stage in self.stages:
            found[stage.slot(Kind.CRITERION)] = Use(stage.criterion)
            found[stage.slot(Kind.DETECTOR)] = stage.detector
            found[stage.slot(Kind.BALANCER)] = stage.balancer
        if self.exchanger is not None:
            found[str(Kind.EXCHANGER)] = self.exchanger
        if self.guards is not None:
            found[GUARDS] = self.guards
        if self.model is not None:
            found[MODEL] = self.model
        return found
