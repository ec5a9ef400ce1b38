"""Chooses the broker of a new subscriber."""

from __future__ import annotations

import random
from collections import Counter

from tocsin.balancing import placement
from tocsin.balancing.placement import Candidate, NewSubscriber
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Instruction, Note, Reply
from tocsin.coordinator.core.members import Members
from tocsin.coordinator.core.migrations import Migrations
from tocsin.coordinator.core.network_model import NetworkModel
from tocsin.coordinator.core.tickets import Tickets
from tocsin.errors import Busy
from tocsin.wire import reports

#: Seconds for which the ticket of a new subscriber is valid.
TICKET = 60.0
#: Placements that are logged one by one: so many at once, and so many in a second. An entry counts the others.
LOGGED, LOGGED_PER_SECOND = 100.0, 0.2
#: Seconds between two entries that count placements.
COUNTED_EVERY = 60.0


class Placement:
    def __init__(
        self,
        name: str,
        rng: random.Random,
        model: NetworkModel,
        members: Members,
        migrations: Migrations,
        tickets: Tickets,
    ) -> None:
        self.name, self._policy, self._rng = name, placement.make(name), rng
        self._model, self._members = model, members
        self._migrations, self._tickets = migrations, tickets
        self._tokens, self._refilled_at, self._counted_at = LOGGED, 0.0, float("-inf")
        self._not_logged: Counter[str] = Counter()

    def use(self, name: str) -> None:
        if name != self.name:
            self.name, self._policy = name, placement.make(name)

    def place(self, event: ev.Place, now: float) -> list[Instruction]:
        request = event.request
        position = (request.lat, request.lon) if request.lat is not None and request.lon is not None else None
        who, candidates = NewSubscriber(position, request.distances), self._candidates()
        avoid = {*request.avoid, *(each.name for each in self._members.values() if self._members.missed(each, now))}
        preferred = [each for each in candidates if each.broker not in avoid]
        chosen = self._policy.place(who, preferred, self._rng)
        if chosen is None:
            # A broker that did not answer a moment ago may answer again, and there is no other.
            chosen = self._policy.place(who, candidates, self._rng)
        if chosen is None:
            hint = "all brokers are gone, full or draining" if self._members else "start a broker"
            raise Busy("no broker accepts subscribers", hint=hint)
        member = self._members[chosen]
        member.placed += 1
        ticket = self._tickets.issue(request.subscriber, member, TICKET, now)
        reply = Reply(event.call, reports.Placement(member.name, member.row.url, ticket))
        return [*self._log(request.subscriber, member.name, now), reply]

    def _log(self, subscriber: str, target: str, now: float) -> list[Instruction]:
        """Everybody may ask for a broker, so that the log would be full of nothing else."""
        self._tokens = min(LOGGED, self._tokens + (now - self._refilled_at) * LOGGED_PER_SECOND)
        self._refilled_at = now
        if self._tokens < 1.0:
            self._not_logged[target] += 1
            return []
        self._tokens -= 1.0
        return [Note("placed", self.name, subscriber, target=target)]

    def count(self, now: float) -> list[Instruction]:
        """One entry for the placements that were not logged one by one."""
        if not self._not_logged or now < self._counted_at + COUNTED_EVERY:
            return []
        counts, self._not_logged, self._counted_at = self._not_logged, Counter(), now
        shares = ", ".join(f"{count} at {name}" for name, count in sorted(counts.items()))
        return [Note("placed", f"{self.name}: {counts.total()} more subscribers, {shares}")]

    def list_brokers(self, event: ev.ListBrokers, now: float) -> list[Instruction]:
        brokers = []
        for each in sorted(self._candidates(), key=lambda each: each.broker):
            member = self._members[each.broker]
            if each.accepts and not self._members.missed(member, now):
                brokers.append(reports.BrokerAddress(member.name, member.row.url, member.row.lat, member.row.lon))
        return [Reply(event.call, reports.BrokerList(brokers))]

    def _candidates(self) -> list[Candidate]:
        """Subscribers on their way to a broker count as if they were there."""
        load, count, arriving = self._model.load.loads.F, self._model.load.count, self._migrations.arriving()
        return [
            Candidate(
                each.name,
                float(load[each.number]),
                each.row.capacity,
                int(count[each.number]) + each.placed + arriving[each.number],
                each.row.max_subscribers,
                each.state == "up",
                each.position,
            )
            for each in self._members.values()
        ]
