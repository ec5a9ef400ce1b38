"""The parts that every load balancing strategy is made of (Antoine et al. 2014), as interfaces.

    LoadInformation            what one peer says about its load for one criterion
    Exchanger                  sends it to others and brings theirs
    Registry                   what was heard, freshest first               (registry.py)
    Detector                   overloaded, normal or underloaded?           (detectors.py)
    Mover                      what to move, where to, and the moving       (balancer.py)
    LoadInformationManager     one exchange: exchanger and registry         (managers.py)
    LoadBalancingManager       one iteration: detector and mover            (managers.py)

Two places run them: the coordinator, which sees all brokers, and a broker, which sees its neighbours. A new strategy
replaces one part and leaves the others as they are. Unlike the paper's, every call is told the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar

ToMove = TypeVar("ToMove")
Target = TypeVar("Target")


class LoadState(Enum):
    OVERLOADED = "overloaded"
    NORMAL = "normal"
    UNDERLOADED = "underloaded"


@dataclass(frozen=True)
class LoadInformation:
    """``peer`` has this much ``load`` by this ``criterion``, measured at ``time``; ``extra`` as a strategy needs it."""

    peer: str
    criterion: str
    load: float
    time: float
    capacity: float = 1.0
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def relative(self) -> float:
        return self.load / self.capacity


class Exchanger(Protocol):
    def exchange_load_information(
        self, recipients: Sequence[str], information: LoadInformation | None, now: float
    ) -> Iterable[LoadInformation]:
        """Pushes ``information`` to the recipients and returns what they answered; either may be nothing."""


class Reports(Protocol):
    """Where detectors and movers look: a registry or something that stands for one."""

    def get_load_report(
        self, criterion: str, now: float, peers: Iterable[str] | None = None
    ) -> list[LoadInformation]: ...


class Detector(Protocol):
    def make_decision(self, criterion: str, reports: Reports, now: float) -> LoadState: ...


class Mover(Protocol[ToMove, Target]):
    def select_load_to_move(self, reports: Reports, criterion: str, state: LoadState, now: float) -> ToMove: ...

    def select_target(self, reports: Reports, criterion: str, state: LoadState, now: float) -> Target: ...

    def rebalance(self, criterion: str, target: Target, load_to_move: ToMove, now: float) -> None: ...
