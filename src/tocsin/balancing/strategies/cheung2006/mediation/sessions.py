"""The states of a session at an edge. Each has a deadline, so that every session ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tocsin.balancing.strategies.cheung2006.detection.indices import Offload
from tocsin.balancing.strategies.cheung2006.detection.overload import Partner
from tocsin.balancing.strategies.cheung2006.estimation.press import Press
from tocsin.balancing.strategies.cheung2006.estimation.resources import Resources

#: Seconds for a reply: control messages do not wait for others.
REPLY = 10.0


@dataclass
class Requesting:
    """Tries the list in order; the broker is not BUSY yet."""

    session: str
    partners: list[Partner]
    overloaded: bool
    deadline: float

    @property
    def partner(self) -> str:
        return self.partners[0].broker


@dataclass
class Sampling:
    """PRESS runs here; the partner is reserved."""

    session: str
    partner: str
    action: Offload
    overloaded: bool
    theirs: Resources
    accepting: tuple[int, ...]
    press: Press

    @property
    def deadline(self) -> float:
        return self.press.until


@dataclass
class Migrating:
    """Subscribers have their orders; waits for DONE."""

    session: str
    partner: str
    deadline: float


@dataclass
class Accepting:
    """``total`` is unknown until the first subscriber arrives."""

    session: str
    partner: str
    deadline: float
    total: int | None = None
    arrived: list[str] = field(default_factory=list)


Session: TypeAlias = Requesting | Sampling | Migrating | Accepting
