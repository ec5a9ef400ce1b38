"""What the coordinator wants to know of subscribers, and what it wants of them."""

from __future__ import annotations

from tocsin.broker.core import events as ev
from tocsin.broker.core.session import Session
from tocsin.broker.core.user_sessions import Users
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.reports import FailedMigration, LoadReport

#: A rate that changed by less than this share is not news.
NEWS = 0.02
#: Reports within which every rate is said once, news or not: the coordinator may have gone by another broker's.
ROUND = 32


class Moves(Users):
    """Changes are gathered between two reports; a report that did not arrive is put back."""

    def changes(self, number: int, now: float, *, full: bool) -> LoadReport:
        """What has changed since it was asked for the last time; ``full`` for everything."""
        changed = self._subscribers if full else self._changed
        subscribers, left = {}, []
        for name in changed:
            peer = self._subscribers.get(name)
            if peer is None:
                left.append(name)
            else:
                subscribers[name] = list(self.fronts[peer].subscriptions)
        counters = self.counters  # books what was delivered, which λ needs
        rates, fresh = {}, []
        for back in self.backs.values():
            rate = back.lam.bytes_per_second(now)
            due = full or back.id % ROUND == number % ROUND
            if due or abs(rate - back.reported) > NEWS * max(rate, back.reported):
                rates[back.id] = back.reported = rate
                if back.lam.fresh(now):
                    fresh.append(back.id)
        self._changed = {}
        outcomes, self._outcomes = self._outcomes, []
        return LoadReport(
            number,
            full,
            subscribers,
            left,
            rates,
            outcomes,
            len(self.fronts),
            counters.bytes_in,
            counters.bytes_out,
            counters.deliveries,
            sum(len(channel.told) for channel in self.channels.values()),
            sum(front.congested for front in self.fronts.values()),
            fresh,
        )

    def put_back(self, report: LoadReport) -> None:
        """It did not arrive."""
        self._changed = dict.fromkeys([*report.subscribers, *report.left]) | self._changed
        self._outcomes = report.outcomes + self._outcomes
        for number in report.rates:
            if number in self.backs:
                self.backs[number].reported = -1.0

    def _ordered(self, event: ev.Ordered) -> None:
        for order in event.orders.migrations:
            peer = self._subscribers.get(order.subscriber)
            if peer is None:
                self._outcomes.append(FailedMigration(order.ticket, "the subscriber is not here"))
            else:
                self._send(self.fronts[peer], wire.Migrate(order.broker, order.url, order.ticket))
        for name in event.orders.drop:
            if name in self._subscribers:
                peer = self._subscribers[name]
                user = self.fronts[peer].user
                self._close(peer, close_codes.MIGRATED, "served by another broker")
                if user is not None:
                    self._elsewhere(ev.Elsewhere(user))

    def _stay(self, front: Session, message: wire.MigrationFailed) -> None:
        if len(self._outcomes) < 10_000:
            self._outcomes.append(FailedMigration(message.ticket, message.reason or "the subscriber stays"))
