"""What a run of edges records."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct

from tocsin.balancing.model.arrays import Floats
from tocsin.balancing.strategies.cheung2006.detection.indices import Indices

SERIES = ("input", "output", "matching", "input_wait", "output_wait", "subscriptions")


class SessionRecord(Struct, frozen=True):
    """``moved`` is 0 if nothing could be offloaded."""

    at: float
    source: str
    target: str
    action: str
    overloaded: bool
    moved: int


class EstimateRecord(Struct, frozen=True):
    """What was expected of a broker after a session, and what it had when the load had settled."""

    at: float
    broker: str
    offloading: bool
    while_joining: bool
    expected: Indices
    found: Indices


class ClusterSessionRecord(Struct, frozen=True):
    began: float
    ended: float | None
    source: str
    target: str


@dataclass
class Records:
    """Series by edge, one value for each of ``times``. ``overhead``: control messages over all, in each interval."""

    edges: list[str]
    times: list[float] = field(default_factory=list)
    series: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    delivery: list[float] = field(default_factory=list)
    overhead: list[float] = field(default_factory=list)
    sessions: list[SessionRecord] = field(default_factory=list)
    estimates: list[EstimateRecord] = field(default_factory=list)
    cluster_sessions: list[ClusterSessionRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.series = {name: {edge: [] for edge in self.edges} for name in SERIES}

    def of(self, name: str, edge: str) -> Floats:
        return np.array(self.series[name][edge])

    def table(self, name: str) -> Floats:
        """A row for each edge."""
        return np.array([self.series[name][edge] for edge in self.edges])

    @property
    def time(self) -> Floats:
        return np.array(self.times)
