"""What the machines of brokers and heads ask their drivers to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices, Offload
from tocsin.balancing.strategies.cheung2006.detection.pie import Pie
from tocsin.balancing.strategies.cheung2006.mediation.messages import AnyControl


@dataclass(frozen=True)
class Publish:
    """A PIE to all that subscribe to this cluster's; a head's to the heads around it."""

    pie: Pie


@dataclass(frozen=True)
class Send:
    to: str
    message: AnyControl


@dataclass(frozen=True)
class Order:
    """The subscriber subscribes at ``to`` as well, with the session and how many migrate in it."""

    subscriber: str
    to: str
    session: str
    total: int


@dataclass(frozen=True)
class Release:
    """The subscribers unsubscribe here after so many seconds: what waits here reaches them before."""

    subscribers: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Watch:
    """Subscribe to the local PIE of a cluster, or unsubscribe."""

    cluster: str
    on: bool


@dataclass(frozen=True)
class Forward:
    """A head passes the global PIE of another on to its neighbours, but for those it came from."""

    pie: Pie
    sender: str


@dataclass(frozen=True)
class Selected:
    """For records: what was decided in a session, and what both brokers are expected to have afterwards."""

    session: str
    partner: str
    action: Offload
    overloaded: bool
    subscribers: int
    ours: Indices
    theirs: Indices


Output: TypeAlias = Publish | Send | Order | Release | Watch | Forward | Selected
