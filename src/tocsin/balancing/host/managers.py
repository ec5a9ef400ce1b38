"""The two managers of a host. Each has its own clock: load information is exchanged more often than load is moved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Generic

from msgspec.structs import replace

from tocsin.balancing.host.actions import AnyAction, Peer
from tocsin.balancing.host.detector import ImbalanceDetector
from tocsin.balancing.host.exchanger import Exchanger
from tocsin.balancing.host.information_registry import InformationRegistry
from tocsin.balancing.host.load_balancer import ActionT_co, Ask, LoadBalancer, LoadT, TargetT
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.host.messages import Pull, Push, Recipient, Report
from tocsin.balancing.host.scope import ModelT, Scope

#: Pulls whose report is awaited at the same time; more would only be a flood.
PULLS = 64


@dataclass
class Clock:
    """Due every ``period`` seconds, the first time after a random part of it, so that peers do not act in step."""

    period: float
    jitter: float = 0.2
    due_at: float = float("-inf")

    def start(self, now: float, rng: Random) -> None:
        self.due_at = now + self.period * rng.random()

    def due(self, now: float, rng: Random) -> bool:
        if now < self.due_at:
            return False
        self.due_at = now + self.period * (1 + self.jitter * (2 * rng.random() - 1))
        return True


@dataclass
class Concern(Generic[ModelT, TargetT, LoadT, ActionT_co]):
    """One criterion, and who detects and repairs its imbalance. The order of concerns is their priority."""

    criterion: str
    detector: ImbalanceDetector[ModelT]
    balancer: LoadBalancer[ModelT, TargetT, LoadT, ActionT_co]


@dataclass
class Inquiry:
    """The pulls of an iteration that goes on when all of them are answered, or when the time is up."""

    criterion: str
    subject: str | None
    until: float
    unanswered: set[int] = field(default_factory=set)
    answers: list[LoadInformation] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """A pull that waits for its report."""

    until: float
    inquiry: Inquiry | None = None


@dataclass
class LoadInformationManager:
    exchanger: Exchanger
    registry: InformationRegistry
    clock: Clock
    numbers: Iterator[int]  # of pulls; never the same again, even if the components are exchanged
    units: bool = False  # whether reports contain the load of each unit
    threshold: float | None = None  # of this peer, sent along if its strategy has one
    _asked: dict[int, Asked] = field(default_factory=dict)

    def own(self, scope: Scope, criteria: Sequence[str]) -> tuple[LoadInformation, ...]:
        return tuple(scope.own(each, threshold=self.threshold, units=self.units) for each in criteria)

    def perform_load_information_exchange(
        self, scope: Scope, criteria: Sequence[str]
    ) -> Iterator[tuple[Recipient, Push | Pull]]:
        recipients = self.exchanger.recipients(scope)
        information = self.own(scope, criteria)
        for recipient, message in self.exchanger.exchange_load_information(scope, recipients, information):
            if isinstance(message, Push):
                yield recipient, message
            elif (numbered := self._numbered(message, None, scope.now)) is not None:
                yield recipient, numbered

    def ask(self, scope: Scope, ask: Ask, criterion: str) -> Iterator[tuple[Recipient, Pull]]:
        lifetime = self.registry.lifetime
        until = scope.now + (lifetime if ask.seconds is None else min(ask.seconds, lifetime))
        inquiry = Inquiry(criterion, scope.subject, until)
        for recipient in (ask.recipient, *ask.also):
            pull = self._numbered(Pull(0, scope.peer, ask.ttl), inquiry, scope.now)
            if pull is not None:
                inquiry.unanswered.add(pull.number)
                yield recipient, pull

    def _numbered(self, pull: Pull, inquiry: Inquiry | None, now: float) -> Pull | None:
        if len(self._asked) >= PULLS:
            self._asked = {number: each for number, each in self._asked.items() if each.until > now}
        if len(self._asked) >= PULLS:
            return None
        number = next(self.numbers)
        until = now + self.registry.lifetime if inquiry is None else inquiry.until
        self._asked[number] = Asked(until, inquiry)
        return replace(pull, number=number)

    def overdue(self, now: float) -> list[Inquiry]:
        """Inquiries whose time is up and that have some answers."""
        late = {number: each for number, each in self._asked.items() if each.until <= now}
        for number in late:
            del self._asked[number]
        found = {id(each.inquiry): each.inquiry for each in late.values() if each.inquiry is not None}
        return [inquiry for inquiry in found.values() if inquiry.answers]

    def next_deadline(self) -> float:
        return min((each.until for each in self._asked.values() if each.inquiry is not None), default=float("inf"))

    def reported(self, scope: Scope, criteria: Sequence[str]) -> tuple[LoadInformation, ...]:
        """The answer to a pull."""
        own, reported = self.own(scope, criteria), getattr(self.exchanger, "reported", None)
        return own if reported is None else tuple(reported(scope, own))

    def register(self, information: Sequence[LoadInformation], criteria: Sequence[str], scope: Scope) -> None:
        """What is about this peer itself or an unknown criterion (another strategy's, still in transit) is ignored."""
        for each in information:
            if each.peer != scope.peer and each.criterion in criteria and 0.0 <= each.load < math.inf:
                self.registry.register(each, scope.now)

    def answered(self, report: Report, now: float) -> Asked | None:
        """The pull that this report answers: once, and in time."""
        asked = self._asked.pop(report.number, None)
        if asked is None or asked.until <= now:
            return None
        if asked.inquiry is not None:
            asked.inquiry.unanswered.discard(report.number)
            asked.inquiry.answers += report.information
        return asked


@dataclass
class LoadBalancingManager(Generic[ModelT, TargetT, LoadT, ActionT_co]):
    """Runs iterations over all concerns, on whatever model, with whatever actions."""

    concerns: Sequence[Concern[ModelT, TargetT, LoadT, ActionT_co]]
    clock: Clock

    @property
    def criteria(self) -> list[str]:
        """In order of priority, each once: several concerns may share one."""
        return list(dict.fromkeys(concern.criterion for concern in self.concerns))

    def perform_one_load_balancing_iteration(
        self, scope: Scope[ModelT], only: str | None = None
    ) -> Iterator[tuple[str, ActionT_co | Ask]]:
        """Algorithm 1: all criteria in order of priority; for an imbalance the target, the load, the actions."""
        for concern in self.concerns:
            if only is not None and concern.criterion != only:
                continue
            state = concern.detector.make_decision(scope, concern.criterion)
            if state is not LoadState.NORMAL:
                for each in self._suggested(scope, concern, state):
                    yield concern.criterion, each

    def iterate_to_rest(
        self, scope: Scope[ModelT], concern: Concern[ModelT, TargetT, LoadT, ActionT_co]
    ) -> Iterator[ActionT_co]:
        """One concern again and again, until it is normal or nothing moves: on a what-if, where actions take effect.

        A balancer without ``repeats`` does all that it can in one iteration.
        """
        repeats = getattr(concern.balancer, "repeats", False)
        moves = True
        while moves and (state := concern.detector.make_decision(scope, concern.criterion)) is not LoadState.NORMAL:
            moves = False
            for each in self._suggested(scope, concern, state):
                if not isinstance(each, Ask):  # who sees all peers has no question
                    moves = repeats
                    yield each

    def _suggested(
        self, scope: Scope[ModelT], concern: Concern[ModelT, TargetT, LoadT, ActionT_co], state: LoadState
    ) -> Iterator[ActionT_co | Ask]:
        balancer, criterion = concern.balancer, concern.criterion
        target = balancer.select_target(scope, criterion, state)
        if isinstance(target, Ask):
            yield target
        elif target is not None:
            load = balancer.select_load_to_move(scope, criterion, state, target)
            yield from balancer.rebalance(scope, criterion, state, target, load)

    def balancers(self, criterion: str) -> list[LoadBalancer[ModelT, TargetT, LoadT, ActionT_co]]:
        return [each.balancer for each in self.concerns if each.criterion == criterion]

    def partner(self, peer: Peer, action: AnyAction) -> Peer:
        return action.target if action.source == peer else action.source
