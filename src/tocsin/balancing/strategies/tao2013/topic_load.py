"""The load model of a head or an edge: topics as bundles of clients, by the metrics of tables I and II."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from msgspec.structs import replace as changed

from tocsin.balancing.host.actions import AnyAction, Unit
from tocsin.balancing.host.load_model import Member
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.tao2013.balancing_cost import BalancingCost
from tocsin.balancing.strategies.tao2013.load_status import Thresholds
from tocsin.balancing.strategies.tao2013.metrics import METRICS, QUEUE, LoadTable, Origin, Resources, Role, TopicUse

#: Parts of a member: what its topic brings, by number.
RATE, SIZE, COPIES, ALLOWED, ORIGIN = range(5)
_ORIGINS = list(Origin)


class TopicLoad:
    """What the driver has observed in the last period. ``smoothing``: weight of the newest rate; 1 takes it alone.

    ``cost``: the measured time of a balancing. ``limits``: what a broker that accepts load may reach.
    """

    def __init__(
        self,
        peer: str,
        resources: Resources,
        role: Role = Role.EDGE,
        *,
        smoothing: float = 1.0,
        limits: Thresholds | None = None,
        cost: BalancingCost | None = None,
    ) -> None:
        self.peer, self.role, self.smoothing = peer, role, smoothing
        self.limits = limits or Thresholds()
        self.cost = cost or BalancingCost()
        self.table = LoadTable(resources, role)

    def observe(self, uses: Iterable[TopicUse]) -> None:
        """A period has ended. Rates are smoothed; the rest is as it is now."""
        found = {}
        for use in uses:
            known = self.table.uses.get(use.topic)
            before = use.rate if known is None else known.rate
            found[use.topic] = replace(use, rate=self.smoothing * use.rate + (1 - self.smoothing) * before)
        self.table = replace(self.table, uses=found)

    # What a host asks.

    @property
    def criteria(self) -> Sequence[str]:
        return METRICS[self.role]

    def measure(self, criterion: str) -> float:
        return self.table.metric(criterion)

    def capacity(self, criterion: str) -> float:
        return float("inf") if criterion == QUEUE else 1.0

    def units(self, criterion: str) -> Sequence[tuple[Unit, float]]:
        """Bundles; a single client of one is a unit too, but not listed."""
        found = [(use.topic, self.table.share(use.topic, criterion)) for use in self.table]
        return sorted(found, key=lambda each: (-each[1], each[0]))

    def holds(self, unit: Unit) -> bool:
        """A bundle is here if any of its clients is: clients of one topic may be at two brokers."""
        return self.table.part(unit) is not None

    def what_if(self) -> TopicTrial:
        return TopicTrial(self)

    # Handover: the target estimates the influence on all of its metrics.

    def members(self, action: AnyAction) -> tuple[Member, ...]:
        found = []
        for unit in action.given_by(self.peer):
            use = self.table.part(unit)
            for client in () if use is None else use.clients:
                each = self.table.part(client)
                if each is not None:
                    found.append(Member(client, parts_of(each)))
        return tuple(found)

    def appraised(self, criterion: str, action: AnyAction, members: Sequence[Member]) -> AnyAction:
        after = self._with(members)
        return changed(action, load=max(0.0, after.metric(criterion) - self.table.metric(criterion)))

    def refuses(self, action: AnyAction, members: Sequence[Member]) -> str | None:
        if not members:
            return "no client would come"
        if not all(valid(each) for each in members):
            return "a client without a rate and a size"
        for each in members:
            if self.table.part(each.name) is not None:
                return f"{each.name} is here already"
        return self.limits.objection(self.table, self._with(members))

    def admit(self, action: AnyAction, members: Sequence[Member]) -> Mapping[str, str]:
        return {}

    def _with(self, members: Sequence[Member]) -> LoadTable:
        table = self.table
        for each in members:
            table = table.including(use_of(each))
        return table


class TopicTrial:
    """As if actions had been executed."""

    def __init__(self, model: TopicLoad) -> None:
        self._peer, self.table = model.peer, model.table
        self._more = 0.0

    def apply(self, action: AnyAction) -> None:
        if action.source == self._peer:
            self.table = self.table.without(action.units)
        else:
            self._more += action.load

    def measure(self, criterion: str) -> float:
        return self.table.metric(criterion) + self._more


def table_of(scope: Scope) -> TopicLoad:
    """The components of this paper work on its load model only."""
    assert isinstance(scope.model, TopicLoad)
    return scope.model


def parts_of(use: TopicUse) -> tuple[tuple[int, float], ...]:
    values = (use.rate, use.size, use.copies, use.allowed, float(_ORIGINS.index(use.origin)))
    return tuple(enumerate(values))


def valid(member: Member) -> bool:
    parts = dict(member.parts)
    finite = all(0.0 <= parts.get(each, -1.0) < float("inf") for each in (RATE, SIZE, COPIES))
    return finite and parts[SIZE] > 0.0 and parts.get(ORIGIN, 0.0) in range(len(_ORIGINS))


def use_of(member: Member) -> TopicUse:
    parts, topic = dict(member.parts), member.name.partition("/")[0]
    origin = _ORIGINS[int(parts.get(ORIGIN, 0.0))]
    allowed = parts.get(ALLOWED, float("inf"))
    return TopicUse(topic, (member.name,), parts[RATE], parts[SIZE], parts[COPIES], 0.0, allowed, origin)
