"""Imbalance detectors: is this peer overloaded, underloaded or normal by a criterion?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.host.scope import ModelT, Scope
from tocsin.errors import UserError


class ImbalanceDetector(Protocol[ModelT]):
    def make_decision(self, scope: Scope[ModelT], criterion: str) -> LoadState: ...


@runtime_checkable
class Limiting(Protocol):
    """A detector with a limit, above which a peer is heavy.

    ``threshold``: given at deployment, and sent along with load information.
    """

    @property
    def threshold(self) -> float | None: ...

    def limit(self, scope: Scope, criterion: str, of: LoadInformation | None = None) -> float:
        """Of a peer, by default of this one; infinite while nothing is known that it depends on."""


def compared(measured: float, estimate: float, k1: float, k2: float) -> LoadState:
    """Algorithm 1 of the paper: m ≥ e·k1 is overloaded, m < e·k2 is underloaded."""
    if measured >= estimate * k1:
        return LoadState.OVERLOADED
    return LoadState.UNDERLOADED if measured < estimate * k2 else LoadState.NORMAL


@dataclass
class Absolute:
    """Compares with thresholds per criterion that are given at deployment; k1 = 1 and k2 = 0, nothing is exchanged."""

    threshold: float
    k1: float = 1.0
    k2: float = 0.0

    def __post_init__(self) -> None:
        check(self.k1, self.k2)

    @property
    def finds(self) -> frozenset[LoadState]:
        return found_with(self.k2)

    def limit(self, scope: Scope, criterion: str, of: LoadInformation | None = None) -> float:
        return self.threshold * self.k1 if of is None or of.threshold is None else of.threshold

    def make_decision(self, scope: Scope[Any], criterion: str) -> LoadState:
        return compared(scope.model.measure(criterion), self.threshold, self.k1, self.k2)


@dataclass
class Relative:
    """Compares with the mean of what is known of the other peers; without any information a peer is normal."""

    k1: float = 1.1
    k2: float = 0.9
    threshold: ClassVar[None] = None

    def __post_init__(self) -> None:
        check(self.k1, self.k2)

    @property
    def finds(self) -> frozenset[LoadState]:
        return found_with(self.k2)

    def limit(self, scope: Scope, criterion: str, of: LoadInformation | None = None) -> float:
        if of is not None and of.threshold is not None:
            return of.threshold
        estimate = self.estimate(scope, criterion)
        return float("inf") if estimate is None else self.k1 * estimate

    def estimate(self, scope: Scope, criterion: str) -> float | None:
        """What a peer is compared with; None while nothing is known."""
        known = [each.load for each in scope.registry.get_load_report(criterion) if each.peer != scope.peer]
        return sum(known) / len(known) if known else None

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        measured, estimate = scope.model.measure(criterion), self.estimate(scope, criterion)
        # Among empty peers every load is too much, but none is not.
        if estimate is None or measured == estimate == 0.0:
            return LoadState.NORMAL
        return compared(measured, estimate, self.k1, self.k2)


def found_with(k2: float) -> frozenset[LoadState]:
    """Without a k2 no peer is ever underloaded."""
    return frozenset({LoadState.OVERLOADED, LoadState.UNDERLOADED} if k2 > 0 else {LoadState.OVERLOADED})


def check(k1: float, k2: float) -> None:
    if not 0 <= k2 <= k1:
        raise UserError(f"k1 is {k1:g} and k2 is {k2:g}", hint="k1 is at least k2, and both are 0 or more")
