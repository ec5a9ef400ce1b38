"""Takes the brokers' load reports, and replies with migrations to begin."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.balancing.strategies.exchangers import CentralExchanger
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Instruction, Note, Reply
from tocsin.coordinator.core.members import Member, Members
from tocsin.coordinator.core.membership import Membership
from tocsin.coordinator.core.migrations import Migrations
from tocsin.coordinator.core.network_model import NetworkModel
from tocsin.coordinator.core.tickets import Tickets
from tocsin.wire.reports import LoadReport, ReportReply

#: Seconds within which a subscriber arrives at a broker that has agreed to take it.
MIGRATION = 45.0


@dataclass(eq=False)
class LoadReports:
    _model: NetworkModel
    _members: Members
    _membership: Membership
    _migrations: Migrations
    _tickets: Tickets
    exchanger: CentralExchanger
    _interval: float

    def report(self, event: ev.Report, now: float) -> list[Instruction]:
        member, report = self._members.authenticated(event.broker, event.token), event.report
        if report.number <= member.report:
            # Late or repeated: a newer report has been taken already.
            return [Reply(event.call, ReportReply(report.number))]
        in_order = report.number == member.report + 1 and not member.needs_full
        member.report = report.number
        if not report.full and not in_order:
            member.needs_full = True
            return [Reply(event.call, ReportReply(report.number, full=True))]
        alive = member.alive
        out = self._membership.revive(member)
        member.reported(now, alive)
        member.needs_full, member.last, member.placed = False, report, 0
        out += self._take(member, report, now)
        drop = [name for name in member.superseded if self._model.is_superseded(name, member.number)]
        member.superseded = {}
        orders, begun = self._migrations.hand_out(member, now)
        others = self._members.alternatives(member)
        peers = self._members.news_for(member, full=report.full)
        member.interval = self.exchanger.next_report(self._interval, migrating=self._migrations.concern(member))
        after = member.interval if member.interval != self._interval else 0.0
        return [*out, *begun, Reply(event.call, ReportReply(report.number, False, orders, drop, others, peers, after))]

    def _take(self, member: Member, report: LoadReport, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        if report.full:
            for name in self._model.claimed(member.number):
                if name not in report.subscribers:
                    out += self._migrations.left(member, name, now)
        for name, broker in report.sent.items():
            if broker in self._members and self._model.at(name) == member.number:
                self._tickets.expect(name, self._members[broker], MIGRATION, now)
        for name, subscriptions in report.subscribers.items():
            before = self._model.at(name)
            expected = self._tickets.expects(name, member, now)
            if self._model.join(name, member.number, subscriptions, now, expected):
                out += self._migrations.follow(name, now)
            else:
                other = self._members.by_number(before).name
                text = f"{member.name} reports a subscriber of {other} that was not sent to it"
                out.append(Note("refused", text, name, other, member.name))
        for name in report.left:
            out += self._migrations.left(member, name, now)
        if report.rates:
            self._model.rates(report.rates, member.number, report.fresh)
        for outcome in report.outcomes:
            out += self._migrations.fail(outcome.ticket, outcome.reason, now)
        return out

    def resolve_claims(self, now: float) -> None:
        """A subscriber that two brokers report for too long is dropped by the first, at its next report."""
        for name, number in self._model.overdue(now):
            self._members.by_number(number).superseded[name] = None
