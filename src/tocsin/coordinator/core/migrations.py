"""Carries out migrations, from the plan to their end: each one is done, fails or is cancelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tocsin.balancing.central_host import CentralHost
from tocsin.balancing.decisions import Reason
from tocsin.balancing.model.migration import Migration
from tocsin.config import CoordinatorLimits
from tocsin.coordinator.core.events import Instruction, Note
from tocsin.coordinator.core.members import Member, Members
from tocsin.coordinator.core.network_model import NetworkModel
from tocsin.coordinator.core.tickets import Tickets
from tocsin.wire.reports import MigrationOrder


class InFlight(NamedTuple):
    subscriber: int
    deadline: float


class Migrations:
    """A migration is pending from the plan on, and in flight from its ticket until its deadline.

    The host's ``pending`` is the only registry of them; here are only the tickets.
    """

    def __init__(
        self, limits: CoordinatorLimits, host: CentralHost, model: NetworkModel, members: Members, tickets: Tickets
    ) -> None:
        self._limits, self._host, self._model = limits, host, model
        self._members, self._tickets = members, tickets
        self._in_flight: dict[str, InFlight] = {}  # by ticket
        self._ticket_of: dict[int, str] = {}

    @property
    def pending(self) -> dict[int, Migration]:
        return self._host.pending

    def arriving(self) -> Counter[int]:
        """Pending migrations by target."""
        return Counter(each.target for each in self.pending.values())

    def concern(self, member: Member) -> bool:
        """Whether any from or to it is pending."""
        return any(member.number in (each.source, each.target) for each in self.pending.values())

    def hand_out(self, member: Member, now: float) -> tuple[list[MigrationOrder], list[Instruction]]:
        """Begin what may begin. The ticket is issued only now, because the target may have changed since the plan."""
        member.budget.refill(now, self._limits.per_second)
        arriving = Counter(each.target for u, each in self.pending.items() if u in self._ticket_of)
        orders: list[MigrationOrder] = []
        out: list[Instruction] = []
        waiting = [u for u, each in self.pending.items() if each.source == member.number and u not in self._ticket_of]
        for u in waiting:
            if member.budget.tokens < 1.0:
                break
            target = self._members.by_number(self.pending[u].target)
            if not self._model.accepts(target.number, arriving[target.number]):
                out += self.cancel(u, f"{target.name} accepts no more subscribers")
                continue
            member.budget.tokens -= 1.0
            arriving[target.number] += 1
            name = self._model.subscribers.name(u)
            ticket = self._tickets.issue(name, target, self._limits.migration_timeout, now)
            self._in_flight[ticket] = InFlight(u, now + self._limits.migration_timeout)
            self._ticket_of[u] = ticket
            out.append(Note("order", "begins", name, member.name, target.name))
            orders.append(MigrationOrder(name, target.name, target.row.url, ticket))
        return orders, out

    def follow(self, name: str, now: float) -> list[Instruction]:
        """The subscriber has arrived at a broker or left one: end its migration if that decides it."""
        u = self._model.subscribers.find(name)
        migration = None if u is None else self.pending.get(u)
        if u is None or migration is None:
            return []
        at = self._model.at(name)
        if at == migration.target:
            self._host.ended(u, now)
            return self._end(migration, Reason.DONE)
        return self.cancel(u, "the subscriber connected elsewhere") if at != migration.source else []

    def fail(self, ticket: str, reason: str, now: float) -> list[Instruction]:
        ended = self._in_flight.pop(ticket, None)
        migration = None if ended is None else self.pending.get(ended.subscriber)
        if migration is None:
            return []
        self._host.ended(migration.subscriber, now)
        return self._end(migration, f"failed: {reason}")

    def cancel(self, u: int, reason: str) -> list[Instruction]:
        """One without a ticket does not begin; one that is in flight ends by itself, like any new connection."""
        return self._end(self.pending.pop(u), f"cancelled: {reason}")

    def cancel_all(self, which: Callable[[Migration], bool], reason: str) -> list[Instruction]:
        chosen = [each.subscriber for each in self.pending.values() if which(each)]
        return [instruction for u in chosen for instruction in self.cancel(u, reason)]

    def _end(self, migration: Migration, text: str) -> list[Instruction]:
        u = migration.subscriber
        self._in_flight.pop(self._ticket_of.pop(u, ""), None)
        name, source, target = self._model.names(migration)
        out: list[Instruction] = [Note("migration", text, name, source, target)]
        return out + self.remove(name) if name in self._model.in_transit else out

    def expire(self, now: float) -> list[Instruction]:
        late = [ticket for ticket, each in self._in_flight.items() if each.deadline <= now]
        return [instruction for ticket in late for instruction in self.fail(ticket, "it timed out", now)]

    def left(self, member: Member, name: str, now: float) -> list[Instruction]:
        """A broker has this subscriber no longer."""
        if not self._model.leave(name, member.number):
            return self.follow(name, now)
        if self._model.subscribers.find(name) in self._ticket_of:
            self._model.in_transit.add(name)  # the target will report it, or the migration times out
            return []
        return self.remove(name)

    def remove(self, name: str) -> list[Instruction]:
        """No broker has this subscriber any more; its number may be reused."""
        out: list[Instruction] = []
        u = self._model.subscribers.find(name)
        if u is not None:
            if u in self.pending:
                self._model.in_transit.discard(name)
                out = self.cancel(u, "the subscriber has left")
            self._host.forget(u)
            self._model.remove(name)
        return out
