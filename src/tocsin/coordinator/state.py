"""The coordinator as a pure state machine: ``handle(event, now) -> [instruction]``.

It believes brokers about who is with them, and the newest of two that claim the same subscriber. Nothing it knows of
subscribers is kept: after a restart brokers report everything again, and nobody is moved before all of them have.
"""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.balancing import strategies
from tocsin.balancing.balancer import Balancer
from tocsin.balancing.decisions import Decision, Limits, Reason
from tocsin.balancing.load import NOWHERE, Load, Status
from tocsin.balancing.move import Move
from tocsin.balancing.names import Names
from tocsin.balancing.placement import Candidate, make_placement
from tocsin.config import CoordinatorConfig
from tocsin.coordinator import events as ev
from tocsin.coordinator.composite import Stages
from tocsin.coordinator.events import BrokerRow, Instruction, Note, Refuse, Reply
from tocsin.coordinator.members import Member
from tocsin.errors import Busy, NotFound, Unauthorized
from tocsin.wire.reports import Order, Orders, Placement, Registered
from tocsin.wire.tickets import Ticket, key_for, sign

#: Seconds for which a ticket is good.
TICKET = 60.0
#: Seconds that two brokers may claim the same subscriber, as they do while it moves.
BOTH = 30.0


class CoordinatorState:
    """``wall`` is the time that tickets are dated by, ``nonce`` makes them unlike; both are the driver's."""

    def __init__(
        self,
        config: CoordinatorConfig,
        secret: bytes,
        rng: random.Random,
        wall: Callable[[], float],
        nonce: Callable[[], str],
    ) -> None:
        self.config = config
        self.secret = secret
        self.rng = rng
        self.wall = wall
        self.nonce = nonce
        self.load = Load()
        self.members: dict[str, Member] = {}
        self.subscribers: Names[str] = Names()
        self.backs: Names[int] = Names()
        self.placement = make_placement(config.placement, rng)
        main = [strategies.make(config.strategy, **config.settings)] if config.strategy else []
        limits = config.limits
        self.balancer = Balancer(
            self.load,
            Stages([strategies.make("drain"), *main]),
            Limits(limits.moves, limits.per_broker, limits.cool_down, limits.least_gain),
        )
        self._by_number: dict[int, Member] = {}
        self._tickets: dict[str, tuple[int, float]] = {}  # of moves under way: subscriber, when it has failed
        self._departed: dict[str, None] = {}  # left their broker and were not seen at the next one yet
        self._claims: dict[str, tuple[str, float]] = {}  # a second broker that has the subscriber too, since when
        self._balanced = float("-inf")
        self._started: float | None = None
        self._out: list[Instruction] = []
        self._now = 0.0
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            ev.Restored: self._restored,
            ev.Register: self._register,
            ev.Report: self._report,
            ev.Leave: self._leaves,
            ev.Place: self._place,
            ev.Drain: self._drain,
            ev.Forget: self._forget,
            ev.Plan: self._plan,
            ev.Topology: self._topology,
            ev.Tick: self._tick,
        }

    def handle(self, event: ev.Event, now: float) -> list[Instruction]:
        self._now = max(self._now, now)
        if self._started is None:
            self._started = self._now
        self._handlers[type(event)](event)
        out, self._out = self._out, []
        return out

    # -- brokers -----------------------------------------------------------------------------------------------------

    def _restored(self, event: ev.Restored) -> None:
        for row in event.brokers:
            self._admit(row)

    def _admit(self, row: BrokerRow) -> Member:
        member = self.members.get(row.name)
        if member is None:
            member = self.members[row.name] = Member(row, len(self._by_number))
            self._by_number[member.number] = member
        member.row = row
        self._open(member)
        return member

    def _open(self, member: Member) -> None:
        status = Status.GONE if not member.alive else Status.DRAINING if member.row.draining else Status.OPEN
        self.load.broker(member.number, member.row.capacity, member.row.most, status)

    def _token(self, broker: str) -> str:
        return hmac.new(self.secret, b"report\0" + broker.encode(), "sha256").hexdigest()

    def _register(self, event: ev.Register) -> None:
        wish = event.registration
        if not hmac.compare_digest(wish.secret, self.config.secret):
            hint = "give the broker the coordinator's secret (TOCSIN_BROKER_SECRET)"
            error = Unauthorized("another secret", hint=hint)
            self._out.append(Refuse(event.call, error))
            return
        known = self.members.get(wish.broker)
        identity = hashlib.sha256(wish.identity.encode()).hexdigest()
        if known is not None and not hmac.compare_digest(known.row.identity, identity):
            hint = f"choose another name; if the other one is gone for good: DELETE /brokers/{wish.broker}"
            error = Unauthorized(f"another broker is registered as {wish.broker}", hint=hint)
            self._out.append(Refuse(event.call, error))
            return
        draining = known is not None and known.row.draining
        row = BrokerRow(wish.broker, wish.url, wish.capacity, wish.most, wish.lat, wish.lon, draining, identity)
        if known is None or known.row != row:
            self._out.append(ev.KeepBroker(row))
        member = self._admit(row)
        self._alive(member)
        member.report = 0
        key = key_for(self.secret, row.name).hex()
        self._out.append(Reply(event.call, Registered(row.name, key, self._token(row.name), self.config.interval)))

    def _alive(self, member: Member) -> None:
        if not member.alive:
            kind: Any = "joined" if member.heard is None else "returned"
            member.alive = True
            self._open(member)
            self._out.append(Note(kind, f"{member.name} at {member.row.url}", target=member.name))
        member.heard = self._now

    def _died(self, member: Member, why: str) -> None:
        member.alive = False
        member.report, member.orders, member.drop = 0, type(member.orders)(), []
        orphans = self.load.mark(member.number, Status.GONE)
        for number in orphans:
            self.balancer.forget(number)
        text = f"{member.name} {why}; {len(orphans)} subscribers will come back elsewhere"
        self._out.append(Note("died", text, source=member.name))

    def _leaves(self, event: ev.Leave) -> None:
        member = self._authentic(event.call, event.broker, event.token)
        if member is not None:
            if member.alive:
                self._died(member, "has left")
            self._out.append(Reply(event.call, {"broker": member.name}))

    def _drain(self, event: ev.Drain) -> None:
        member = self._known(event.call, event.broker)
        if member is not None:
            row = member.row
            member.row = msgspec.structs.replace(row, draining=not event.undo)
            self._open(member)
            self._out.append(ev.KeepBroker(member.row))
            self._out.append(Note("undrained" if event.undo else "draining", member.name, source=member.name))
            self._balanced = float("-inf")  # look at once
            self._out.append(Reply(event.call, {"broker": member.name, "state": member.state}))

    def _forget(self, event: ev.Forget) -> None:
        member = self._known(event.call, event.broker)
        if member is None:
            return
        if member.alive:
            hint = f"stop it first, or tocsin drain {member.name}"
            self._out.append(Refuse(event.call, Busy(f"{member.name} is alive", hint=hint)))
            return
        del self.members[member.name]
        self._out.append(ev.DropBroker(member.name))
        self._out.append(Note("forgotten", member.name, source=member.name))
        self._out.append(Reply(event.call, {"broker": member.name}))

    def _known(self, call: ev.Call, name: str) -> Member | None:
        member = self.members.get(name)
        if member is None:
            there = ", ".join(sorted(self.members)) or "none"
            self._out.append(Refuse(call, NotFound("broker", name, hint=f"there are: {there}")))
        return member

    def _authentic(self, call: ev.Call, broker: str, token: str) -> Member | None:
        """Only a broker itself speaks for it."""
        member = self.members.get(broker)
        if member is None or not hmac.compare_digest(token, self._token(broker)):
            self._out.append(Refuse(call, Unauthorized("register first", hint="POST /registerbroker")))
            return None
        return member

    # -- reports -----------------------------------------------------------------------------------------------------

    def _report(self, event: ev.Report) -> None:
        member = self._authentic(event.call, event.broker, event.token)
        if member is None:
            return
        report = event.report
        self._alive(member)
        if not report.full and report.number != member.report + 1:
            member.report = 0
            self._out.append(Reply(event.call, Orders(report.number, full=True)))
            return
        member.report, member.last = report.number, report
        if report.full:
            here = {self.subscribers.name(u) for u in self.load.subscribers(member.number)}
            for name in here - set(report.subscribers):
                self._leave(member, name)
        for name, numbers in report.subscribers.items():
            self._join(member, name, numbers)
        for name in report.left:
            self._leave(member, name)
        if report.rates:
            known = list(report.rates)
            self.load.rates([self.backs.number(number) for number in known], [report.rates[each] for each in known])
        for outcome in report.outcomes:
            self._failed(outcome.ticket, outcome.reason)
        drop, member.drop = member.drop, []
        moves = member.hand_out(self._now, self.config.limits.per_second)
        self._out.append(Reply(event.call, Orders(report.number, False, moves, drop)))

    def _join(self, member: Member, name: str, numbers: list[int]) -> None:
        u = self.subscribers.number(name)
        subscriptions = [self.backs.number(number) for number in numbers]
        at = int(self.load.at[u]) if u < len(self.load.at) else NOWHERE
        if at not in (NOWHERE, member.number) and name not in self._departed:
            # It is with two: here from now on, and there until that broker says that it has left.
            self._claims[name] = (self._by_number[at].name, self._now)
        self.load.join(u, member.number, subscriptions)
        move = self.balancer.pending.get(u)
        if move is not None and move.target == member.number:
            self._arrived(u)

    def _leave(self, member: Member, name: str) -> None:
        claim = self._claims.get(name)
        if claim is not None and claim[0] == member.name:
            del self._claims[name]
        u = self.subscribers.find(name)
        if u is None or int(self.load.at[u]) != member.number:
            return
        if u in self.balancer.pending:
            self._departed[name] = None  # on its way: the other broker will tell, or the time runs out
        else:
            self._remove(name, u)

    def _remove(self, name: str, u: int) -> None:
        self._departed.pop(name, None)
        self.load.leave(u)
        self.balancer.forget(u)
        self.subscribers.forget(name)

    # -- placement ---------------------------------------------------------------------------------------------------

    def _place(self, event: ev.Place) -> None:
        wish = event.request
        usable = [each for each in self.members.values() if each.alive and each.name not in wish.avoid]
        usable = usable or [each for each in self.members.values() if each.alive]
        relative = self.load.loads.relative
        candidates = [
            Candidate(
                each.number,
                float(relative[each.number]),
                int(self.load.count[each.number]),
                each.row.most,
                each.row.capacity,
                Status(int(self.load.status[each.number])),
                (each.row.lat, each.row.lon) if each.row.lat is not None and each.row.lon is not None else None,
                wish.distances.get(each.name),
            )
            for each in usable
        ]
        where = (wish.lat, wish.lon) if wish.lat is not None and wish.lon is not None else None
        chosen = self.placement.choose(candidates, where)
        if chosen is None:
            hint = "start a broker" if not self.members else "all brokers are gone, full or draining"
            self._out.append(Refuse(event.call, Busy("no broker can take anybody", hint=hint)))
            return
        member = self._by_number[chosen]
        ticket = self._ticket(wish.subscriber, member)
        self._out.append(Note("placed", self.config.placement, wish.subscriber, target=member.name))
        self._out.append(Reply(event.call, Placement(member.name, member.row.url, ticket)))

    def _ticket(self, subscriber: str, member: Member) -> str:
        ticket = Ticket(subscriber, member.name, self.wall() + TICKET, self.nonce())
        return sign(ticket, key_for(self.secret, member.name))

    # -- balance -----------------------------------------------------------------------------------------------------

    def _tick(self, event: ev.Tick) -> None:
        now = self._now
        for member in list(self.members.values()):
            if member.alive and member.heard is not None and now - member.heard > self.config.gone_after:
                self._died(member, f"was not heard for {self.config.gone_after:g} s")
        for ticket, (_, deadline) in list(self._tickets.items()):
            if deadline <= now:
                self._failed(ticket, "it did not arrive in time")
        for name, (broker, since) in list(self._claims.items()):
            if now - since > BOTH:
                del self._claims[name]
                if broker in self.members:
                    self.members[broker].drop.append(name)
        if now - self._balanced >= self.config.balance_every and self._complete():
            self._balanced = now
            self._balance()

    def _complete(self) -> bool:
        """Whether all brokers have reported, or had the time to: half a picture would move half a city."""
        assert self._started is not None
        patient = self._now - self._started < self.config.gone_after
        missing = any(not each.alive and each.heard is None for each in self.members.values())
        return not (patient and missing) and all(each.report for each in self.members.values() if each.alive)

    def _balance(self) -> None:
        plan = self.balancer.plan(self._now)
        for move in plan.dropped:
            self._call_off(move.subscriber)
        for move in plan.moves:
            self._begin(move)
        for decision in plan.decisions:
            if decision.accepted or decision.reason in (Reason.POINTLESS,):
                self._out.append(self._note(decision))
        loads = self.load.loads
        alive = [each for each in self.members.values() if each.alive]
        self._out.append(
            ev.Sample(
                loads.mu,
                loads.maximum,
                loads.cov,
                self.load.lower_bound(),
                {
                    each.name: (
                        float(loads.I[each.number]),
                        float(loads.O[each.number]),
                        int(self.load.count[each.number]),
                    )
                    for each in alive
                },
                len(self.balancer.pending),
            )
        )

    def _begin(self, move: Move) -> None:
        source, target = self._by_number[move.source], self._by_number[move.target]
        name = self.subscribers.name(move.subscriber)
        ticket = self._ticket(name, target)
        self._tickets[ticket] = (move.subscriber, self._now + self.config.limits.move_seconds)
        source.orders.append(Order(name, target.name, target.row.url, ticket))

    def _call_off(self, u: int) -> None:
        """A move that is not under way yet does not begin; one that is ends by itself."""
        name = self.subscribers.name(u) if u < len(self.load.at) and self.load.at[u] != NOWHERE else None
        for ticket in [ticket for ticket, (number, _) in self._tickets.items() if number == u]:
            del self._tickets[ticket]
        for member in self.members.values():
            member.orders = type(member.orders)(order for order in member.orders if order.subscriber != name)

    def _arrived(self, u: int) -> None:
        self.balancer.finished(u, self._now)
        self._departed.pop(self.subscribers.name(u), None)
        for ticket in [ticket for ticket, (number, _) in self._tickets.items() if number == u]:
            del self._tickets[ticket]
        self._out.append(self._note(self.balancer.log[-1]))

    def _failed(self, ticket: str, reason: str) -> None:
        found = self._tickets.pop(ticket, None)
        if found is not None and found[0] in self.balancer.pending:
            u = found[0]
            move = self.balancer.pending[u]
            self.balancer.failed(u, self._now)
            name = self.subscribers.name(u)
            source, target = self._by_number[move.source].name, self._by_number[move.target].name
            self._out.append(Note("move", f"failed: {reason}", name, source, target))
            if name in self._departed:
                self._remove(name, u)

    def _note(self, decision: Decision) -> Note:
        move = decision.move
        at = self.load.at
        known = move.subscriber < len(at) and at[move.subscriber] != NOWHERE
        name = self.subscribers.name(move.subscriber) if known else ""
        why = move.why or self.config.strategy
        text = f"{decision.reason.value}: {why}" if decision.accepted else decision.reason.value
        return Note("move", text, name, self._by_number[move.source].name, self._by_number[move.target].name)

    # -- to look at --------------------------------------------------------------------------------------------------

    def _plan(self, event: ev.Plan) -> None:
        plan = self.balancer.dry_run(self._now)
        after = self.load.as_if([*self.balancer.pending.values(), *plan.moves])
        before = self.load.loads
        moves = [
            {
                "subscriber": self.subscribers.name(move.subscriber),
                "from": self._by_number[move.source].name,
                "to": self._by_number[move.target].name,
                "worth": move.worth,
                "why": move.why or self.config.strategy,
            }
            for move in plan.moves
        ]
        body = {
            "strategy": self.config.strategy,
            "before": {"cov": before.cov, "maximum": before.maximum, "mean": before.mu},
            "after": {"cov": after.cov, "maximum": after.maximum, "mean": after.mu},
            "bound": self.load.lower_bound(),
            "moves": moves,
            "refused": [
                {"subscriber": self.subscribers.name(each.move.subscriber), "reason": each.reason.value}
                for each in plan.decisions
                if not each.accepted
            ][:1000],
        }
        self._out.append(Reply(event.call, body))

    def _topology(self, event: ev.Topology) -> None:
        loads = self.load.loads
        brokers = [
            {
                "name": each.name,
                "url": each.row.url,
                "state": each.state,
                "capacity": each.row.capacity,
                "subscribers": int(self.load.count[each.number]),
                "load_in": float(loads.I[each.number]),
                "load_out": float(loads.O[each.number]),
                "connections": each.last.connections if each.last is not None else 0,
                "deliveries": each.last.deliveries if each.last is not None else 0,
                "waiting": each.last.waiting if each.last is not None else 0,
                "lagging": each.last.lagging if each.last is not None else 0,
                "heard": None if each.heard is None else self._now - each.heard,
                "leaving": len(each.orders),
            }
            for each in self.members.values()
        ]
        body = {
            "brokers": brokers,
            "subscribers": len(self.subscribers),
            "cov": loads.cov,
            "mean": loads.mu,
            "maximum": loads.maximum,
            "bound": self.load.lower_bound(),
            "pending": len(self.balancer.pending),
            "strategy": self.config.strategy,
            "placement": self.config.placement,
        }
        self._out.append(Reply(event.call, body))
