"""The load of one broker: F_j = Σ_k z_jk (1 + n_jk) λ_k of the DEBS paper, over the broker's capacity.

A group that leaves saves λ_k of what no other subscriber here has; one that arrives adds λ_k of what is new here. The
broker that accepts it estimates with the rates that it measures itself, and with those of the source for the rest.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from tocsin.balancing.brokers.groups import similar, turn
from tocsin.balancing.host.actions import AnyAction, Peer, Unit
from tocsin.balancing.host.load_model import Member

#: Bytes a second over capacity; subscribers over capacity; subscribers of a broker that is being drained.
LOAD, SUBSCRIBERS, DRAIN = "load", "subscribers", "drain"
#: Seconds that a measurement counts, and that groups do.
MEASURED, GROUPED = 1.0, 5.0
#: Seconds for which a rate of the source counts where this broker has only begun to measure.
HINT = 60.0
#: Units whose members are remembered.
UNITS = 1_024
#: Members of one action, and parts of one member, that a broker takes.
MOST_MEMBERS, MOST_PARTS = 8_192, 100_000


class Population(Protocol):
    """The subscribers of a broker, as its state machine has them."""

    @property
    def now(self) -> float: ...

    def receivers(self) -> Iterable[tuple[int, int]]:
        """The BE subscriptions that have subscribers, with the number of them."""

    def rate(self, k: int) -> float:
        """λ in bytes a second; 0 if the broker does not have it."""

    def count(self) -> int: ...

    def movable(self, *, everyone: bool = False) -> Sequence[str]:
        """The subscribers that could migrate now; ``everyone``: also those for whom it is a bad moment."""

    def subscriptions(self, name: str) -> Collection[int] | None:
        """The BE subscriptions of a subscriber; None if it is not here."""

    def refuses(self, count: int) -> str | None:
        """Why the broker does not take so many more."""


@dataclass(frozen=True)
class Arrival:
    parts: tuple[tuple[int, float], ...]
    until: float


class BrokerLoad:
    """``permit(subscriber, seconds)`` makes a ticket. ``draining``: it gives everything away and takes nothing."""

    criteria = (LOAD, SUBSCRIBERS, DRAIN)

    def __init__(
        self,
        peer: Peer,
        population: Population,
        permit: Callable[[str, float], str],
        capacity: float = 1.0,
        cool_down: float = 60.0,
        seconds: float = 45.0,
    ) -> None:
        self.peer, self.population, self.permit = peer, population, permit
        self.scale, self.cool_down, self.seconds = capacity, cool_down, seconds
        self.draining = False
        self.arriving: dict[str, Arrival] = {}
        self._arrived: dict[str, float] = {}
        self._hints: dict[int, tuple[float, float]] = {}  # rate, until
        self._members: dict[Unit, tuple[str, ...]] = {}
        self._measured = (-math.inf, 0.0)
        self._grouped: tuple[float, list[tuple[Unit, float, int]]] = (-math.inf, [])
        self._turns = 0

    # What a host asks.

    def measure(self, criterion: str) -> float:
        if criterion == LOAD:
            at, load = self._measured
            if not at <= self.population.now < at + MEASURED:
                load = self.total(dict(self.population.receivers()))
                self._measured = self.population.now, load
            return load / self.scale
        if criterion == SUBSCRIBERS:
            return (self.population.count() + len(self.arriving)) / self.scale
        return float(self.population.count()) if self.draining else 0.0

    def total(self, n: dict[int, int]) -> float:
        """F as if those who are on their way had arrived."""
        for arrival in self.arriving.values():
            for k, _ in arrival.parts:
                n[k] = n.get(k, 0) + 1
        return math.fsum((1 + count) * self.rate(k) for k, count in n.items() if count)

    def rate(self, k: int) -> float:
        measured, (hint, until) = self.population.rate(k), self._hints.get(k, (0.0, -math.inf))
        return max(measured, hint) if self.population.now < until else measured

    def capacity(self, criterion: str) -> float:
        return math.inf

    def units(self, criterion: str) -> Sequence[tuple[Unit, float]]:
        at, groups = self._grouped
        if not at <= self.population.now < at + GROUPED:
            groups = self._group()
            self._grouped = self.population.now, groups
        if criterion == LOAD:
            return [(unit, saved / self.scale) for unit, saved, _ in groups]
        weight = self.scale if criterion == SUBSCRIBERS else 1.0
        return sorted(((unit, size / weight) for unit, _, size in groups), key=lambda each: (-each[1], each[0]))

    def _group(self) -> list[tuple[Unit, float, int]]:
        """Heaviest first."""
        now = self.population.now
        self._arrived = {name: at for name, at in self._arrived.items() if now - at < self.cool_down}
        names = [
            name
            for name in self.population.movable(everyone=self.draining)
            if self.draining or name not in self._arrived
        ]
        rows = {name: self.population.subscriptions(name) or () for name in turn(names, self._turns)}
        self._turns += 1
        n = dict(self.population.receivers())
        found = []
        for group in similar(rows.items()):
            here = Counter(k for name in group for k in rows[name])
            saved = math.fsum((m + (m >= n.get(k, 0))) * self.rate(k) for k, m in here.items())
            found.append((self._unit(group), saved, len(group)))
        return sorted(found, key=lambda each: (-each[1], each[0]))

    def unit(self, name: str) -> Unit:
        """A unit of one subscriber."""
        return self._unit((name,))

    def _unit(self, group: tuple[str, ...]) -> Unit:
        """Ids of subscribers are secrets: directories see only this."""
        unit = hashlib.blake2b("\0".join(group).encode(), digest_size=9).hexdigest()
        self._members.pop(unit, None)
        self._members[unit] = group
        while len(self._members) > UNITS:
            del self._members[next(iter(self._members))]
        return unit

    def holds(self, unit: Unit) -> bool:
        return any(self.population.subscriptions(name) is not None for name in self._members.get(unit, ()))

    def what_if(self) -> BrokerTrial:
        return BrokerTrial(self)

    # Both sides of a session.

    def members(self, action: AnyAction) -> tuple[Member, ...]:
        found = []
        for name in dict.fromkeys(name for unit in action.units for name in self._members.get(unit, ())):
            ks = self.population.subscriptions(name)
            if ks is not None:
                found.append(Member(name, tuple((k, self.rate(k)) for k in ks)))
        return tuple(found)

    def refuses(self, action: AnyAction, members: Sequence[Member]) -> str | None:
        if not members:
            return "no subscriber of it is left"
        rates = [rate for each in members for _, rate in each.parts]
        if len(members) > MOST_MEMBERS or len(rates) > MOST_PARTS:
            return f"{len(members)} subscribers with {len(rates)} subscriptions are too many at once"
        if len({each.name for each in members}) != len(members) or not all(each.name for each in members):
            return "a subscriber has no name of its own"
        if not all(math.isfinite(rate) and rate >= 0.0 for rate in rates):
            return "a rate is not a number of bytes"
        if self.draining:
            return "this broker is being drained"
        return self.population.refuses(len(members) + len(self.arriving))

    def appraised(self, criterion: str, action: AnyAction, members: Sequence[Member]) -> AnyAction:
        if criterion == LOAD:
            return replace(action, load=self.added(members) / self.scale)
        return replace(action, load=len(members) / self.scale if criterion == SUBSCRIBERS else 0.0)

    def added(self, members: Sequence[Member]) -> float:
        n = dict(self.population.receivers())
        for arrival in self.arriving.values():
            n.update((k, n.get(k, 0) + 1) for k, _ in arrival.parts)
        here = Counter(k for each in members for k, _ in each.parts)
        rates = {k: max(rate, self.rate(k)) if not n.get(k) else self.rate(k) for e in members for k, rate in e.parts}
        return math.fsum((m + (not n.get(k))) * rates[k] for k, m in here.items())

    def admit(self, action: AnyAction, members: Sequence[Member]) -> Mapping[str, str]:
        until = self.population.now + self.seconds
        for each in members:
            self.arriving[each.name] = Arrival(each.parts, until)
            for k, rate in each.parts:
                self._hints[k] = (max(rate, self._hints.get(k, (0.0, 0.0))[0]), self.population.now + HINT)
        self._measured = (-math.inf, 0.0)
        return {each.name: self.permit(each.name, self.seconds) for each in members}

    def tick(self) -> None:
        """Notes who has arrived, and forgets who has not in time."""
        now = self.population.now
        for name, arrival in list(self.arriving.items()):
            here = self.population.subscriptions(name) is not None
            if here:
                self._arrived[name] = now
            if here or arrival.until <= now:
                del self.arriving[name]
                self._measured = (-math.inf, 0.0)
        self._hints = {k: each for k, each in self._hints.items() if each[1] > now}


class BrokerTrial:
    """As if actions had been executed. Of what arrives, only the load that the action names is known."""

    def __init__(self, model: BrokerLoad) -> None:
        self._model = model
        self._n = dict(model.population.receivers())
        self._left: dict[str, None] = {}
        self._more = 0.0

    def apply(self, action: AnyAction) -> None:
        if action.source != self._model.peer:
            self._more += action.load
            return
        for member in self._model.members(action):
            if member.name not in self._left:
                self._left[member.name] = None
                for k, _ in member.parts:
                    self._n[k] -= 1

    def measure(self, criterion: str) -> float:
        model = self._model
        if criterion == LOAD:
            return model.total(dict(self._n)) / model.scale + self._more
        left = len(self._left) / (model.scale if criterion == SUBSCRIBERS else 1.0)
        return max(0.0, model.measure(criterion) - left)
