"""What brokers report, and what they are answered."""

from __future__ import annotations

from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Note, Reply
from tocsin.coordinator.core.members import Member
from tocsin.coordinator.core.placement import Placing
from tocsin.wire.reports import LoadReport, ReportReply


class Reporting(Placing):
    def _report(self, event: ev.Report) -> None:
        member, report = self._authentic(event.call, event.broker, event.token), event.report
        if member is None:
            return
        if report.number <= member.report:
            # Late, or a second time: what is newer has been heard already.
            self._out.append(Reply(event.call, ReportReply(report.number)))
            return
        in_order = report.number == member.report + 1 and not member.behind
        member.report = report.number
        if not report.full and not in_order:
            member.behind = True
            self._out.append(Reply(event.call, ReportReply(report.number, full=True)))
            return
        alive = member.alive
        self._alive(member)
        member.reported(self._now, alive)
        member.behind, member.last, member.promised = False, report, 0
        self._take(member, report)
        drop = [name for name in member.drop if self.picture.is_older(name, member.number)]
        member.drop = {}
        self._out.append(Reply(event.call, ReportReply(report.number, False, self._hand_out(member), drop)))

    def _take(self, member: Member, report: LoadReport) -> None:
        if report.full:
            for name in self.picture.claimed(member.number):
                if name not in report.subscribers:
                    self._left(member, name)
        for name, numbers in report.subscribers.items():
            before = self.picture.at(name)
            if self.picture.join(name, member.number, numbers, self._now, self._sent(name, member)):
                self._look_after(name)
            else:
                other = self._by_number[before].name
                text = f"{member.name} says that it has a subscriber of {other}, and was not sent it"
                self._out.append(Note("refused", text, name, other, member.name))
        for name in report.left:
            self._left(member, name)
        if report.rates:
            self.picture.rates(report.rates, member.number, report.fresh)
        for outcome in report.outcomes:
            self._failed(outcome.ticket, outcome.reason)

    def _settle(self) -> None:
        """Whoever is with two brokers for too long is dropped by the older one, which is asked again until it has."""
        for name, number in self.picture.overdue(self._now):
            self._by_number[number].drop[name] = None
