"""Rao et al. (2003): virtual servers migrate from heavy to light peers. Three schemes.

a) criteria: one resource, whichever the load model measures.
b) load state estimation: L_i > T_i is heavy, everything else is light. T_i is given at deployment; where the peers'
   loads are comparable, it may be the mean of those that are known instead, with some slack.
c) decision: periodically, on each peer; in the third scheme at the directories.
d) method: virtual servers, which are neither split nor merged.
e) load moved: one virtual server. It must not make the light peer heavy. The lightest that makes the heavy peer light,
   or else the heaviest (one-to-one); the heaviest that fits (one-to-many); as many as make the heavy peers light, the
   heaviest first (many-to-many; without Rao's last phase, which exchanges virtual servers of light peers).
f) target: a random peer; the fitting light peer of a directory; the best one for each virtual server.
g) exchange: pull from a random peer; light peers push to a directory and heavy ones pull from it; all push.
h) recipients: the peer of a random id; the directories. ``locate`` finds them: in a key space as ``Key``, else by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tocsin.balancing.host.actions import ActionKind, AnyAction, Migrate, Peer, Unit
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.host.messages import Pull, Push, Recipient
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.antoine2014.choice_by_hash import by_hash
from tocsin.errors import UserError

Units = Sequence[tuple[Unit, float]]
#: The recipient of a directory's number.
Locate = Callable[[Scope, int], Recipient]


def random_neighbour(scope: Scope) -> Recipient | None:
    """Where there is no key space."""
    return scope.rng.choice(list(scope.neighbours)) if scope.neighbours else None


def named_directory(scope: Scope, number: int) -> Recipient:
    return by_hash(scope, f"directory {number}")


@dataclass
class HeavyOrLight:
    """Heavy if the load is above the threshold of the peer, light otherwise.

    ``threshold``: T_i; without one, ``1 + slack`` times the mean of all peers that are known.
    """

    threshold: float | None = None
    slack: float = 0.1

    def __post_init__(self) -> None:
        if (self.threshold is not None and self.threshold < 0.0) or self.slack < 0.0:
            raise UserError(f"threshold {self.threshold} and slack {self.slack:g}", hint="both are 0 or more")

    def limit(self, scope: Scope, criterion: str, of: LoadInformation | None = None) -> float:
        """T of a peer, by default of this one; infinite while nothing is known of the others."""
        if of is not None and of.threshold is not None:
            return of.threshold
        if self.threshold is not None:
            return self.threshold
        known = [each.load for each in scope.registry.get_load_report(criterion) if each.peer != scope.peer]
        if not known:
            return float("inf")
        return (1 + self.slack) * (scope.model.measure(criterion) + sum(known)) / (len(known) + 1)

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        heavy = scope.model.measure(criterion) > self.limit(scope, criterion)
        return LoadState.OVERLOADED if heavy else LoadState.UNDERLOADED


def virtual_server(units: Units, excess: float, room: float) -> tuple[Unit, float] | None:
    """The lightest that removes the excess and fits into the room, or else the heaviest that fits."""
    fitting = [(load, unit) for unit, load in units if 0.0 < load <= room]
    enough = [each for each in fitting if each[0] >= excess]
    if not fitting:
        return None
    load, unit = min(enough) if enough else max(fitting)
    return unit, load


@dataclass
class OneToOne:
    """A light peer asks a random one; if that is heavy, one of its virtual servers comes here."""

    detector: HeavyOrLight = field(default_factory=HeavyOrLight)
    probe: Callable[[Scope], Recipient | None] = random_neighbour
    actions: ClassVar[frozenset[ActionKind]] = frozenset({ActionKind.MIGRATE})

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | Ask | None:
        """The peer of a random id, if it is heavy."""
        if state is not LoadState.UNDERLOADED:
            return None  # a light peer finds it
        if scope.answer is None:
            recipient = self.probe(scope)
            return None if recipient is None else Ask(recipient)
        heavy = [each for each in _about(scope, criterion) if each.load > self.detector.limit(scope, criterion, each)]
        return max(heavy, key=lambda each: (each.load, each.peer)).peer if heavy else None

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> Sequence[Unit]:
        """One virtual server of the heavy peer, the lightest that makes it light."""
        heavy = next(each for each in _about(scope, criterion) if each.peer == target)
        excess = heavy.load - self.detector.limit(scope, criterion, heavy)
        room = self.detector.limit(scope, criterion) - scope.model.measure(criterion)
        found = virtual_server(heavy.units, excess, room)
        return () if found is None else (found[0],)

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        loads = {
            unit: weight for each in _about(scope, criterion) if each.peer == target for unit, weight in each.units
        }
        return [Migrate(target, scope.peer, loads[unit], "one-to-one", (unit,)) for unit in load]


@dataclass
class LightToDirectory:
    """Light peers push to a directory. It answers pulls with all that it knows.

    ``everyone``: heavy peers push too, as the third scheme needs.
    """

    detector: HeavyOrLight = field(default_factory=HeavyOrLight)
    directories: int = 1
    locate: Locate = named_directory
    everyone: bool = False

    def __post_init__(self) -> None:
        if self.directories < 1:
            raise UserError(f"{self.directories} directories", hint="at least 1")

    def directory(self, scope: Scope) -> Recipient:
        return self.locate(scope, scope.rng.randrange(self.directories))

    def recipients(self, scope: Scope) -> Sequence[Recipient]:
        """A directory."""
        found = self.directory(scope)
        return () if found == scope.peer else (found,)

    def exchange_load_information(
        self, scope: Scope, recipients: Sequence[Recipient], information: Sequence[LoadInformation]
    ) -> Iterator[tuple[Recipient, Push | Pull]]:
        light = [each for each in information if self.everyone or self._light(scope, each)]
        return ((each, Push(tuple(light))) for each in recipients if light)

    def _light(self, scope: Scope, own: LoadInformation) -> bool:
        return own.load <= self.detector.limit(scope, own.criterion, own)

    def reported(self, scope: Scope, own: Sequence[LoadInformation]) -> Sequence[LoadInformation]:
        return [*own, *(each for mine in own for each in scope.registry.aged(mine.criterion, scope.now))]


@dataclass
class OneToMany:
    """A heavy peer asks a directory for light ones, and gives the heaviest virtual server that fits to one of them."""

    exchanger: LightToDirectory = field(default_factory=LightToDirectory)
    actions: ClassVar[frozenset[ActionKind]] = frozenset({ActionKind.MIGRATE})

    @property
    def detector(self) -> HeavyOrLight:
        return self.exchanger.detector

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | Ask | None:
        """The light peer of a directory in which it fits best."""
        if scope.answer is None:
            directory = self.exchanger.directory(scope)
            # A light peer that knows nothing asks too: how else would it learn that it is heavy?
            knows = state is LoadState.UNDERLOADED and scope.registry.get_load_report(criterion)
            if directory != scope.peer:
                return None if knows else Ask(directory)
        found = self._best(scope, criterion) if state is LoadState.OVERLOADED else None
        return None if found is None else found[0]

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> Sequence[Unit]:
        """The heaviest virtual server that fits."""
        found = self._best(scope, criterion)
        return () if found is None else (found[1],)

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        loads = dict(scope.model.units(criterion))
        return [Migrate(scope.peer, target, loads[unit], "one-to-many", (unit,)) for unit in load]

    def _best(self, scope: Scope, criterion: str) -> tuple[Peer, Unit] | None:
        known = scope.registry.get_load_report(criterion) if scope.answer is None else _about(scope, criterion)
        room = {each.peer: self.detector.limit(scope, criterion, each) - each.load for each in known}
        return best_fit(scope.model.units(criterion), room)


def best_fit(units: Units, room: dict[Peer, float]) -> tuple[Peer, Unit] | None:
    """The heaviest unit that fits anywhere, and the peer that it fills best."""
    for unit, load in sorted(units, key=lambda each: (-each[1], each[0])):
        fitting = [(space, peer) for peer, space in room.items() if space >= load > 0.0]
        if fitting:
            return min(fitting)[1], unit
    return None


@dataclass
class Directory:
    """At a directory: there is work where both heavy and light peers have reported."""

    detector: HeavyOrLight = field(default_factory=HeavyOrLight)

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        known = scope.registry.get_load_report(criterion)
        if not known:
            return LoadState.NORMAL
        everyone = [*known, scope.own(criterion, threshold=self.detector.threshold)]
        heavy = [each.load > self.detector.limit(scope, criterion, each) for each in everyone]
        return LoadState.OVERLOADED if any(heavy) and not all(heavy) else LoadState.NORMAL


@dataclass
class ManyToMany:
    """A directory assigns virtual servers of all heavy peers to light ones, and sends them the solution."""

    detector: HeavyOrLight = field(default_factory=HeavyOrLight)
    actions: ClassVar[frozenset[ActionKind]] = frozenset({ActionKind.MIGRATE})

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | Ask | None:
        """The best light peer for each virtual server: the directory decides for all."""
        return scope.peer

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> Sequence[Unit]:
        """Virtual servers of all heavy peers, until they are light."""
        return ()

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        own = scope.own(criterion, threshold=self.detector.threshold, units=True)
        everyone = [*scope.registry.get_load_report(criterion), own]
        limits = {each.peer: self.detector.limit(scope, criterion, each) for each in everyone}
        return list(assignment(everyone, limits))


def assignment(everyone: Sequence[LoadInformation], limits: dict[Peer, float]) -> Iterator[Migrate]:
    """What heavy peers unload is put in at light ones, the heaviest first, each where it fits best.

    Where it fits nowhere, the heaviest other one of the same peer that fits goes instead.
    """
    pool: list[tuple[float, Unit, Peer]] = []
    for each in everyone:
        excess, left = each.load - limits[each.peer], list(each.units)
        while excess > 0.0 and (found := virtual_server(left, excess, float("inf"))) is not None:
            pool.append((found[1], found[0], each.peer))
            left.remove(found)
            excess -= found[1]
    room = {each.peer: limits[each.peer] - each.load for each in everyone if each.load <= limits[each.peer]}
    rest = {each.peer: dict(each.units) for each in everyone}
    for _, unit, source in pool:
        del rest[source][unit]
    for load, unit, source in sorted(pool, reverse=True):
        loads = {unit: load} if best_fit([(unit, load)], room) else rest[source]
        fit = best_fit(list(loads.items()), room)
        if fit is not None:
            target, chosen = fit
            load = loads.pop(chosen)
            room[target] -= load
            yield Migrate(source, target, load, "many-to-many", (chosen,))


def _about(scope: Scope, criterion: str) -> list[LoadInformation]:
    """What was pulled for this iteration, about other peers."""
    return [each for each in scope.answer or () if each.criterion == criterion and each.peer != scope.peer]
