"""What a simulated run leaves: samples each second, migrations, and messages that came too late."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.simulation.deadlines.output_queues import Gap


@dataclass(frozen=True)
class Migrated:
    """One action. ``needless``: without it, no message of its source would have been late in the next minute.

    ``in_order``: no bundle that stayed and that the target could have taken comes first by table IV."""

    time: float
    source: str
    target: str
    units: tuple[str, ...]
    clients: int
    reason: str
    needless: bool
    in_order: bool = True

    @property
    def pair(self) -> frozenset[str]:
        return frozenset((self.source, self.target))


@dataclass
class Results:
    """``uplink`` by edge and ``depth`` by (edge, topic), at each of ``times``, after what happened then.

    ``gaps`` by (edge, topic): what was shed is announced."""

    times: list[int] = field(default_factory=list)
    uplink: dict[str, list[float]] = field(default_factory=dict)
    depth: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    migrations: list[Migrated] = field(default_factory=list)
    joined: dict[str, str] = field(default_factory=dict)
    arrived: dict[str, float] = field(default_factory=dict)
    late: dict[str, float] = field(default_factory=dict)
    shed: dict[str, float] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)
    gaps: dict[tuple[str, str], list[Gap]] = field(default_factory=dict)

    def at(self, second: int) -> int:
        return self.times.index(second)

    def used(self, edge: str, second: int) -> float:
        return self.uplink[edge][self.at(second)]

    def waiting(self, edge: str, topic: str, second: int) -> float:
        found = self.depth.get((edge, topic))
        return 0.0 if found is None else found[self.at(second)]

    def since(self, second: float) -> list[Migrated]:
        return [each for each in self.migrations if each.time >= second]

    @property
    def missed(self) -> float:
        """Messages whose deadline was missed: late, or not sent because they would have been."""
        return sum(self.late.values()) + sum(self.shed.values())
