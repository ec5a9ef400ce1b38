"""A host: one participant of balancing, as a pure machine ``handle(event, now) -> [output]``.

It owns one component of each kind and talks to other hosts by messages only. The driver delivers ``Send`` and executes
``Execute``, and reports the result of each execution. Nothing that another host sends can make this one move what it
does not have, and every session ends.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import TypeAlias

from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import ActionKind, AnyAction, Peer, Unit
from tocsin.balancing.host.exchanger import Exchanger
from tocsin.balancing.host.guards import Guard, InFlight
from tocsin.balancing.host.information_registry import InformationRegistry
from tocsin.balancing.host.load_balancer import Ask, check_actions
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.load_model import Handover, LoadModel
from tocsin.balancing.host.managers import Clock, Concern, Inquiry, LoadBalancingManager, LoadInformationManager
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.host.sessions import Session, Sessions, SessionState
from tocsin.errors import UserError

#: Movements of units that guards can ask about are forgotten after this many seconds.
REMEMBERED = 3_600.0
#: Refusals that a host keeps for people to read.
REFUSALS = 100
#: Hops of a pull; a longer random walk would only be a flood.
MOST_HOPS = 64


@dataclass(frozen=True)
class Send:
    to: ms.Recipient
    message: ms.Message


@dataclass(frozen=True)
class Execute:
    """Carry this out, then report ``Executed`` with the same session and position. ``permits``: the target's, by name
    of a member, where it has to admit them."""

    session: str
    position: int
    action: AnyAction
    permits: Mapping[str, str] = field(default_factory=dict)


Output: TypeAlias = Send | Execute


@dataclass(frozen=True)
class Tick:
    pass


@dataclass(frozen=True)
class Trigger:
    """Something happened that strategies may act on at once: a peer joined, an item is to be inserted.

    ``criterion``: the only one of the iteration, if it concerns one."""

    subject: str | None = None
    criterion: str | None = None


@dataclass(frozen=True)
class Received:
    sender: Peer
    message: ms.Message


@dataclass(frozen=True)
class Executed:
    session: str
    position: int
    ok: bool = True


@dataclass(frozen=True)
class PeerLost:
    """The driver has noticed that a peer is gone: its sessions end now."""

    peer: Peer


Event: TypeAlias = Tick | Trigger | Received | Executed | PeerLost


@dataclass(frozen=True)
class Refusal:
    action: AnyAction
    by: Peer
    reason: str
    time: float


@dataclass
class Composition:
    """A strategy as its components. ``advises``: its actions may concern other peers, which get them as advice."""

    concerns: Sequence[Concern]
    exchanger: Exchanger
    guards: Sequence[Guard] = ()
    exchange_every: float = 30.0
    balance_every: float = 60.0
    lifetime: float = 90.0
    timeout: float = 30.0
    units: bool = False
    threshold: float | None = None
    advises: bool = False


class Host:
    """``executes``: the kinds of action that the driver can carry out. ``epoch``: unique to this start of the host."""

    def __init__(
        self,
        peer: Peer,
        model: LoadModel,
        strategy: Composition,
        rng: Random,
        executes: Collection[ActionKind],
        epoch: str = "0",
    ) -> None:
        check(strategy, model, executes)
        self.peer, self.model, self.executes = peer, model, frozenset(executes)
        self._handover = model if isinstance(model, Handover) else None
        self.neighbours: Sequence[Peer] = ()
        self.sessions = Sessions(peer, strategy.timeout)
        self.refusals: list[Refusal] = []
        self._rng, self._epoch = rng, epoch
        # A report of an earlier life of this host answers no pull of this one.
        self._numbers = count(rng.getrandbits(40))
        self._moved: dict[str, float] = {}
        self._now = -math.inf
        self.registry = InformationRegistry(strategy.lifetime)
        self._assemble(strategy)

    def _assemble(self, strategy: Composition) -> None:
        self.strategy = strategy
        self.sessions.timeout = strategy.timeout
        self.registry.lifetime = strategy.lifetime
        self.information = LoadInformationManager(
            strategy.exchanger,
            self.registry,
            Clock(strategy.exchange_every),
            self._numbers,
            units=strategy.units,
            threshold=strategy.threshold,
        )
        self.balancing = LoadBalancingManager(strategy.concerns, Clock(strategy.balance_every))

    def use(self, strategy: Composition, now: float) -> None:
        """Exchange components at run time. Open sessions go on; answers to earlier pulls start nothing."""
        check(strategy, self.model, self.executes)
        self._assemble(strategy)
        self.information.clock.start(now, self._rng)
        self.balancing.clock.start(now, self._rng)

    # Events.

    def handle(self, event: Event, now: float) -> list[Output]:
        if self._now == -math.inf:
            self.information.clock.start(now, self._rng)
            self.balancing.clock.start(now, self._rng)
        self._now = now = max(self._now, now)
        self.registry.expire(now)
        match event:
            case Tick():
                return self._tick(now)
            case Trigger(subject, criterion):
                return self._iterate(self._scope(now, subject=subject), criterion)
            case Received(sender, message):
                return self._received(sender, message, now)
            case Executed(session, position, ok):
                return self._executed(session, position, ok, now)
            case PeerLost(peer):
                return self._lost(peer, now)

    def _scope(self, now: float, answer: Sequence[LoadInformation] | None = None, subject: str | None = None) -> Scope:
        return Scope(self.peer, now, self.model, self.registry, self.neighbours, self._rng, answer, subject)

    def _tick(self, now: float) -> list[Output]:
        out = [output for session in self.sessions.late(now) for output in self._timed_out(session, now)]
        self._moved = {unit: at for unit, at in self._moved.items() if now - at < REMEMBERED}
        scope = self._scope(now)
        for inquiry in self.information.overdue(now):
            out += self._go_on(inquiry, now)
        if self.information.clock.due(now, self._rng):
            exchange = self.information.perform_load_information_exchange(scope, self.balancing.criteria)
            out += [Send(recipient, message) for recipient, message in exchange]
        if self.balancing.clock.due(now, self._rng):
            out += self._iterate(scope)
        return out

    def next_due(self) -> float:
        """When a tick has something to do."""
        clocks = (self.information.clock.due_at, self.balancing.clock.due_at)
        return min(*clocks, self.sessions.next_deadline(), self.information.next_deadline())

    # Iterations.

    def _iterate(self, scope: Scope, only: str | None = None) -> list[Output]:
        out: list[Output] = []
        for criterion, each in self.balancing.perform_one_load_balancing_iteration(scope, only):
            if isinstance(each, Ask):
                out += [Send(to, pull) for to, pull in self.information.ask(scope, each, criterion)]
            elif self.strategy.advises and self.peer not in (each.source, each.target):
                out.append(Send(each.executor, ms.Advise(criterion, (each,))))
            else:
                out += self._begin(scope, criterion, each)
        return out

    def _go_on(self, inquiry: Inquiry, now: float) -> list[Output]:
        return self._iterate(self._scope(now, tuple(inquiry.answers), inquiry.subject), inquiry.criterion)

    def _begin(self, scope: Scope, criterion: str, action: AnyAction) -> list[Output]:
        """Open a session for an action, or advise it to the peer that has to open one."""
        if self.peer not in (action.source, action.target) or action.source == action.target:
            return self._refuse(action, self.peer, "it does not concern this peer and another", scope.now, criterion)
        objection = self._objection(scope, criterion, action)
        if objection is not None:
            return self._refuse(action, self.peer, objection, scope.now, criterion)
        partner = self.balancing.partner(self.peer, action)
        handover = self._handover
        if handover is not None and action.executor != self.peer:
            return [Send(partner, ms.Advise(criterion, (action,)))]
        session = self.sessions.open(partner, criterion, (action,), scope.now, self._epoch)
        members = () if handover is None else (handover.members(action),)
        own = (scope.own(criterion, threshold=self.strategy.threshold),)
        return [Send(partner, ms.Request(session.number, criterion, session.actions, own, members))]

    def _objection(self, scope: Scope, criterion: str, action: AnyAction, arriving: float = 0.0) -> str | None:
        """``arriving``: the load that comes together with it."""
        if action.executor == self.peer and action.kind not in self.executes:
            return f"this host cannot {action.kind.value}"
        for unit in action.given_by(self.peer):
            if not self.model.holds(unit):
                return f"{unit} is not here"
        for unit in action.given_to(self.peer):
            if self.model.holds(unit):
                return f"{unit} is here already"
        if len(set(action.units)) < len(action.units):
            return "it names a unit twice"
        if not (math.isfinite(action.load) and action.load >= 0.0):
            return f"its load is {action.load!r}"
        for unit in action.units:
            if self.sessions.busy(unit):
                return f"{unit} takes part in another session"
        in_flight = InFlight(len(self.sessions), self._moved, arriving + self.sessions.arriving(criterion))
        for guard in self.strategy.guards:
            objection = guard.objection(scope, criterion, action, in_flight)
            if objection is not None:
                return objection
        return None

    def _refuse(self, action: AnyAction, by: Peer, reason: str, now: float, criterion: str) -> list[Output]:
        self.refusals = [*self.refusals[1 - REFUSALS :], Refusal(action, by, reason, now)]
        for balancer in self.balancing.balancers(criterion):
            learner = getattr(balancer, "refused", None)
            if learner is not None:
                learner(action, reason, now)
        return []

    # Messages.

    def _received(self, sender: Peer, message: ms.Message, now: float) -> list[Output]:
        scope, criteria = self._scope(now), self.balancing.criteria
        match message:
            case ms.Push(information):
                self.information.register(information, criteria, scope)
            case ms.Pull(number, origin, ttl):
                return self._pulled(scope, number, origin, ttl)
            case ms.Report(_, information):
                asked = self.information.answered(message, now)
                if asked is None:
                    return []
                self.information.register(information, criteria, scope)
                if asked.inquiry is not None and not asked.inquiry.unanswered:
                    return self._go_on(asked.inquiry, now)
            case ms.Advise(criterion, actions):
                if criterion in criteria:
                    mine = [action for action in actions if action.executor == self.peer]
                    return [out for action in mine for out in self._begin(scope, criterion, action)]
            case ms.Request():
                return self._requested(scope, sender, message)
            case ms.Accept():
                return self._accepted(sender, message, now)
            case ms.Decline(number, reason):
                session = self.sessions.get(number, sender)
                if session is not None and session.state is SessionState.REQUESTED and session.opened_here:
                    self.sessions.end(session)
                    for action in session.actions:
                        self._refuse(action, sender, reason, now, session.criterion)
            case ms.Done(number, done):
                self._done(sender, number, done, now)
        return []

    def _pulled(self, scope: Scope, number: int, origin: Peer, ttl: int) -> list[Output]:
        others = [each for each in self.neighbours if each != origin]
        if ttl > 0 and others:
            return [Send(scope.rng.choice(others), ms.Pull(number, origin, min(ttl, MOST_HOPS) - 1))]
        if origin == self.peer:
            return []
        return [Send(origin, ms.Report(number, self.reported(scope.now)))]

    def reported(self, now: float) -> tuple[LoadInformation, ...]:
        """What it answers to a pull."""
        return self.information.reported(self._scope(now), self.balancing.criteria)

    # Sessions.

    def _requested(self, scope: Scope, sender: Peer, request: ms.Request) -> list[Output]:
        if self.sessions.knows(request.session):
            return []  # repeated
        if sender == self.peer or not request.session.startswith(f"{sender}/"):
            return []  # a number that belongs to another peer
        about = [each for each in request.information if each.peer == sender]
        self.information.register(about, self.balancing.criteria, scope)
        objection = self._request_objection(scope, sender, request)
        if objection is not None:
            return [Send(sender, ms.Decline(request.session, objection))]
        executes = request.actions[0].executor == self.peer
        state = SessionState.EXECUTING if executes else SessionState.WAITING
        session = self.sessions.join(request.session, sender, request.criterion, request.actions, state, scope.now)
        permits: tuple[dict[str, str], ...] = ()
        if self._handover is not None:
            admit = self._handover.admit
            permits = tuple(dict(admit(*each)) for each in zip(request.actions, request.members, strict=True))
        accepted: list[Output] = [Send(sender, ms.Accept(request.session, permits))]
        return accepted + (self._execute(session, ()) if executes else [])

    def _request_objection(self, scope: Scope, sender: Peer, request: ms.Request) -> str | None:
        if request.criterion not in self.balancing.criteria:
            return f"this host does not balance {request.criterion}"
        if len({action.executor for action in request.actions}) != 1:
            return "the actions have no single executor"
        handover = self._handover
        if handover is not None and request.actions[0].executor == self.peer:
            return "the peer that has a unit asks for the session"
        if handover is not None and len(request.members) != len(request.actions):
            return "the request does not say who would come"
        arriving, units = 0.0, set[Unit]()
        for position, action in enumerate(request.actions):
            if {action.source, action.target} != {sender, self.peer}:
                return "the action does not concern the two peers of the session"
            if not units.isdisjoint(action.units):
                return "two actions concern the same unit"
            if handover is not None:
                members = request.members[position]
                if (objection := handover.refuses(action, members)) is not None:
                    return objection
                action = handover.appraised(request.criterion, action, members)
            if (objection := self._objection(scope, request.criterion, action, arriving)) is not None:
                return objection
            units.update(action.units)
            arriving += action.load if action.target == self.peer else 0.0
        return None

    def _accepted(self, sender: Peer, accept: ms.Accept, now: float) -> list[Output]:
        number = accept.session
        session = self.sessions.get(number, sender)
        if session is None:
            # It ended here before the answer came: the partner need not wait for its own deadline.
            return [Send(sender, ms.Done(number, self.sessions.result(number, sender), "the session has ended"))]
        if session.state is not SessionState.REQUESTED or not session.opened_here:
            return []
        if session.actions[0].executor != self.peer:
            self.sessions.advance(session, SessionState.WAITING, now)
            return []
        units = (unit for action in session.actions for unit in action.given_by(self.peer))
        gone = [unit for unit in units if not self.model.holds(unit)]
        if gone:
            self.sessions.end(session)
            for action in session.actions:
                self._refuse(action, self.peer, f"{gone[0]} has left", now, session.criterion)
            return [Send(sender, ms.Done(number, (), f"{gone[0]} has left"))]
        self.sessions.advance(session, SessionState.EXECUTING, now)
        return self._execute(session, accept.permits)

    def _execute(self, session: Session, permits: Sequence[Mapping[str, str]]) -> list[Output]:
        return [
            Execute(session.number, position, action, permits[position] if position < len(permits) else {})
            for position, action in enumerate(session.actions)
        ]

    def _executed(self, number: str, position: int, ok: bool, now: float) -> list[Output]:
        session = self.sessions.executing(number)
        if session is None or position in (*session.done, *session.failed):
            return []
        if not 0 <= position < len(session.actions):
            return []
        (session.done if ok else session.failed).append(position)
        if ok:
            self._remember(session.actions[position], now)
        if not session.settled:
            return []
        self.sessions.end(session)
        if session.state is SessionState.LATE:
            return []
        for action in session.undone:
            self._refuse(action, self.peer, "it failed", now, session.criterion)
        return [Send(session.partner, ms.Done(number, tuple(sorted(session.done))))]

    def _done(self, sender: Peer, number: str, done: tuple[int, ...], now: float) -> None:
        session = self.sessions.get(number, sender)
        if session is None and number.startswith(f"{sender}/"):
            self.sessions.void(number)
        if session is None or session.state not in (SessionState.REQUESTED, SessionState.WAITING):
            return
        # What this host would execute, it has not: whatever the partner says.
        here = session.actions[0].executor == self.peer
        session.done = [] if here else [position for position in range(len(session.actions)) if position in done]
        self.sessions.end(session)
        for position in session.done:
            self._remember(session.actions[position], now)
        for action in session.undone:
            self._refuse(action, sender, "it was not executed", now, session.criterion)

    def _remember(self, action: AnyAction, now: float) -> None:
        self._moved.update(dict.fromkeys(action.units, now))

    def _timed_out(self, session: Session, now: float) -> list[Output]:
        was = session.state
        self._give_up(session, now)
        if was is SessionState.LATE:
            return []
        for action in session.undone:
            self._refuse(action, session.partner, f"time-out while {was.value}", now, session.criterion)
        done = tuple(sorted(session.done))
        return [Send(session.partner, ms.Done(session.number, done, f"time-out while {session.state.value}"))]

    def _give_up(self, session: Session, now: float) -> None:
        """What the driver executes goes on until it reports, and its units stay in the session until then."""
        if session.state is SessionState.EXECUTING:
            self.sessions.advance(session, SessionState.LATE, now)
        else:
            self.sessions.end(session)

    def _lost(self, peer: Peer, now: float) -> list[Output]:
        self.registry.forget(peer)
        for session in self.sessions:
            if session.partner == peer and session.state is not SessionState.LATE:
                self._give_up(session, now)
                for action in session.undone:
                    self._refuse(action, peer, "the peer is gone", now, session.criterion)
        return []


def check(strategy: Composition, model: LoadModel, executes: Collection[ActionKind]) -> None:
    """Refuse a combination that cannot work, before anything runs."""
    if not strategy.concerns:
        raise UserError("the strategy has no criterion", hint=f"this load model has: {', '.join(model.criteria)}")
    for concern in strategy.concerns:
        if concern.criterion not in model.criteria:
            hint = f"this load model has: {', '.join(model.criteria)}"
            raise UserError(f"the load model does not measure {concern.criterion!r}", hint=hint)
    check_actions((concern.balancer for concern in strategy.concerns), executes)
