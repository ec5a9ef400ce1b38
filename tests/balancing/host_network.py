"""Hosts with a simple load model, connected by a network that a test controls message by message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import ActionKind, AnyAction, Migrate, Peer, Swap, Unit
from tocsin.balancing.host.detector import Relative
from tocsin.balancing.host.exchanger import PushToNeighbours, Silent
from tocsin.balancing.host.host import (
    Composition,
    Event,
    Execute,
    Executed,
    Host,
    Output,
    PeerLost,
    Received,
    Send,
    Tick,
    Trigger,
)
from tocsin.balancing.host.information_registry import InformationRegistry
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.host.managers import Concern
from tocsin.balancing.host.scope import Scope


@dataclass
class Items:
    """The load is the sum of what is here, by every criterion the same."""

    here: dict[Unit, float]
    criteria: Sequence[str] = ("items",)
    most: float = float("inf")

    def measure(self, criterion: str) -> float:
        return sum(self.here.values())

    def capacity(self, criterion: str) -> float:
        return self.most

    def units(self, criterion: str) -> list[tuple[Unit, float]]:
        return sorted(self.here.items(), key=lambda item: (-item[1], item[0]))

    def holds(self, unit: Unit) -> bool:
        return unit in self.here

    def what_if(self) -> Any:
        trial = type(self)(dict(self.here), self.criteria, self.most)
        trial.apply = lambda action: [trial.here.pop(unit) for unit in action.units]  # type: ignore[attr-defined]
        return trial


@dataclass
class Halve:
    """An overloaded peer gives the heaviest unit that fits to the least loaded one that it knows."""

    actions = frozenset({ActionKind.MIGRATE})
    refusals: list[tuple[AnyAction, str]] = field(default_factory=list)

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | None:
        known = scope.registry.get_load_report(criterion)
        overloaded = known and state is LoadState.OVERLOADED
        return min(known, key=lambda each: (each.load, each.peer)).peer if overloaded else None

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> list[Unit]:
        gap = scope.model.measure(criterion) - scope.registry.get_load_report(criterion, [target])[0].load
        return [unit for unit, weight in scope.model.units(criterion) if weight <= gap / 2][:1]

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        weights = dict(scope.model.units(criterion))
        return [Migrate(scope.peer, target, weights[unit], "halve", (unit,)) for unit in load]

    def refused(self, action: AnyAction, reason: str, now: float) -> None:
        self.refusals.append((action, reason))


@dataclass
class Queue(Halve):
    """Suggests what the test has put here, once."""

    actions = frozenset(ActionKind)
    waiting: list[AnyAction] = field(default_factory=list)

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        return LoadState.OVERLOADED if self.waiting else LoadState.NORMAL

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer:
        return self.waiting[0].target

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> list[Unit]:
        return []

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        found, self.waiting = self.waiting, []
        return found


def composition(**fields: Any) -> Composition:
    """Pushes to neighbours every 10 seconds and balances every 20."""
    concerns = fields.pop("concerns", None) or [Concern("items", Relative(), Halve())]
    return Composition(
        concerns, **{"exchanger": PushToNeighbours(), "exchange_every": 10, "balance_every": 20} | fields
    )


def quiet(**fields: Any) -> Composition:
    """Does nothing by itself."""
    return composition(**{"exchanger": Silent()} | fields)


def host(peer: Peer = "a", model: Items | None = None, strategy: Composition | None = None, **fields: Any) -> Host:
    fields = {"rng": Random(1), "executes": set(ActionKind)} | fields
    return Host(peer, model or Items({}), strategy or composition(), **fields)


def scope(model: Items | None = None, *known: LoadInformation, peer: Peer = "a", **fields: Any) -> Scope:
    registry = InformationRegistry()
    for each in known:
        registry.register(each, 0.0)
    fields = {"now": 0.0, "neighbours": (), "rng": Random(1)} | fields
    return Scope(peer=peer, model=model or Items({}), registry=registry, **fields)


class Network:
    """Messages and executions wait until the test lets them happen. Every ``Execute`` is checked."""

    def __init__(self, items: dict[Peer, dict[Unit, float]], **fields: Any) -> None:
        make, model = fields.pop("strategy", quiet), fields.pop("model", Items)
        self.models: dict[Peer, Items] = {peer: model(here, **fields) for peer, here in items.items()}
        self.hosts = {peer: host(peer, model, make()) for peer, model in self.models.items()}
        self.wire: list[tuple[Peer, Peer, ms.Message]] = []
        self.executing: list[tuple[Peer, Execute]] = []
        self.now = 0.0
        for peer, each in self.hosts.items():
            each.neighbours = [other for other in self.hosts if other != peer]

    def put(self, peer: Peer, event: Event) -> None:
        self.take(peer, self.hosts[peer].handle(event, self.now))

    def take(self, peer: Peer, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                assert isinstance(output.to, str)
                self.wire.append((peer, output.to, output.message))
                continue
            action = output.action
            assert action.executor == peer, "only the executor executes"
            for unit in action.given_by(peer):
                assert self.models[peer].holds(unit), f"{peer} executes {unit}, which it does not hold"
            for unit in self.present(action):
                busy = [other for _, other in self.executing if unit in self.present(other.action)]
                assert not busy, f"{unit} is executed twice"
            self.executing.append((peer, output))

    def present(self, action: AnyAction) -> list[Unit]:
        """The units that are where the action says: a liar may name others as those that it would return."""
        peers = [peer for peer in (action.source, action.target) if peer in self.models]
        return [unit for peer in peers for unit in action.given_by(peer) if self.models[peer].holds(unit)]

    def deliver(self, place: int = 0, *, keep: bool = False) -> None:
        sender, receiver, message = self.wire[place] if keep else self.wire.pop(place)
        if receiver in self.hosts:
            self.put(receiver, Received(sender, message))

    def finish(self, place: int = 0, *, ok: bool = True) -> None:
        peer, execute = self.executing.pop(place)
        action = execute.action
        if isinstance(action, Swap) and not set(action.returned) <= self.models[action.target].here.keys():
            ok = False  # the target has lied, or has given the session up: the driver cannot get what is not there
        if ok and action.target in self.models and isinstance(action, Migrate | Swap):
            for unit in action.given_by(action.source):
                self.models[action.target].here[unit] = self.models[action.source].here.pop(unit)
            for unit in action.given_by(action.target) if isinstance(action, Swap) else ():
                self.models[action.source].here[unit] = self.models[action.target].here.pop(unit)
        self.put(peer, Executed(execute.session, execute.position, ok))

    def suggest(self, peer: Peer, action: AnyAction) -> None:
        """As if a balancer of this host had suggested it."""
        host, queue = self.hosts[peer], Queue(waiting=[action])
        concerns, host.balancing.concerns = host.balancing.concerns, [Concern("items", queue, queue)]
        self.put(peer, Trigger())
        host.balancing.concerns = concerns

    def lose(self, peer: Peer) -> None:
        for other in self.hosts:
            if other != peer:
                self.put(other, PeerLost(peer))

    def tick(self, seconds: float = 1.0) -> None:
        self.now += seconds
        for peer in self.hosts:
            self.put(peer, Tick())

    def run(self) -> None:
        """Until nothing is in transit or executing."""
        while self.wire or self.executing:
            while self.wire:
                self.deliver()
            while self.executing:
                self.finish()

    def check(self) -> None:
        units = [unit for model in self.models.values() for unit in model.here]
        assert len(units) == len(set(units)), "a unit is in two places"

    @property
    def units(self) -> set[Unit]:
        return {unit for model in self.models.values() for unit in model.here}

    @property
    def open(self) -> int:
        return sum(len(each.sessions) for each in self.hosts.values())


@dataclass
class BrokerItems(Items):
    """As a broker measures, of which none is being drained."""

    criteria: Sequence[str] = ("load", "subscribers", "drain")

    def measure(self, criterion: str) -> float:
        return 0.0 if criterion == "drain" else super().measure(criterion)


def broker_network(counts: dict[Peer, int], make: Callable[[], Composition]) -> Network:
    """With so many units of the loads 1, 2, 3 at each broker."""
    items = {peer: {f"{peer}.{j}": 1.0 + j % 3 for j in range(count)} for peer, count in counts.items()}
    return Network(items, strategy=make, model=BrokerItems)
