"""Load reports to the coordinator, and the migrations that it orders."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tocsin.broker.core import events as ev
from tocsin.broker.core.be_subscriptions import BESubscriptions
from tocsin.broker.core.context import Context, Out
from tocsin.broker.core.model.be_subscription import BESubscription
from tocsin.broker.core.model.departures import Departures
from tocsin.broker.core.model.session import LIVE, Session
from tocsin.broker.core.sessions import Sessions
from tocsin.broker.core.user_sessions import UserSessions
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.reports import FailedMigration, LoadReport, MigrationOrder

#: A rate that changed by less than this share is not reported.
NEWS = 0.02
#: Reports within which every rate is reported once: the coordinator may have used another broker's.
ROUND = 32


class BESubscriptionLoad(Struct, frozen=True):
    """λ and n of one BE subscription, as the DEBS paper's load model names them."""

    subscription: int
    channel: str
    subscribers: int
    lam: float
    lam_bytes: float


class Report(Struct, frozen=True):
    """The load of a broker at a moment."""

    broker: str
    connections: int
    lagging: int
    catching_up: int
    notified: int  # executions not delivered yet
    fetches: int
    bytes_in: int
    bytes_out: int
    deliveries: int
    notifications: int
    subscriptions: list[BESubscriptionLoad]


class LoadReports:
    """Changes are gathered between two reports; after one that did not arrive, the next is full."""

    def __init__(
        self, context: Context, sessions: Sessions, be_subscriptions: BESubscriptions, users: UserSessions
    ) -> None:
        self.context, self.sessions = context, sessions
        self.be_subscriptions, self.users = be_subscriptions, users
        self.departures = Departures()  # that this broker has ordered itself
        self.sent: dict[str, str] = {}  # by subscriber: the broker that it was sent to, for the coordinator
        #: The role in the overlay, and by neighbour the messages that came and went.
        self.overlay: Callable[[], tuple[str, dict[str, tuple[int, int]]]] = lambda: ("", {})
        self._outcomes: list[FailedMigration] = []
        self._reported_users: set[str] = set()  # over REST, as the coordinator knows them

    def changes(self, number: int, now: float, *, full: bool) -> LoadReport:
        """What has changed since the report before; ``full`` for everything, as after a report that was lost."""
        context = self.context
        full = full or not context.reporting
        counters = context.ledger.counters  # books the deliveries, which λ needs
        subscribers, left = self._subscribers(full=full)
        rates, fresh = {}, []
        for each in self.be_subscriptions.by_id.values():
            rate = each.lam.bytes_per_second(now)
            due = full or each.id % ROUND == number % ROUND
            if due or abs(rate - each.reported) > NEWS * max(rate, each.reported):
                rates[each.id] = each.reported = rate
                if each.lam.fresh(now):
                    fresh.append(each.id)
        context.changed, context.changed_users, context.reporting = {}, {}, True
        outcomes, self._outcomes = self._outcomes, []
        sent, self.sent = self.sent, {}
        sessions, channels = context.sessions.values(), self.be_subscriptions.channels.values()
        return LoadReport(
            number,
            full,
            subscribers,
            left,
            rates,
            outcomes,
            len(sessions),
            counters.bytes_in,
            counters.bytes_out,
            counters.deliveries,
            sum(len(channel.queue) for channel in channels),
            sum(session.congested for session in sessions),
            fresh,
            sent,
            *self.overlay(),
        )

    def _subscribers(self, *, full: bool) -> tuple[dict[str, list[int]], list[str]]:
        """The BE subscriptions of each that changed, and those that left. Users over REST are subscribers too."""
        subscribers, left = {}, []
        if full:
            self._reported_users.clear()
        by_subscriber = self.sessions.by_subscriber
        for name in by_subscriber if full else self.context.changed:
            peer = by_subscriber.get(name)
            if peer is None:
                left.append(name)
            else:
                subscribers[name] = list(self.context.sessions[peer].subscriptions)
        users = self.users.rest_users() if full else list(self.context.changed_users)
        for user in users:
            if self.users.served_over_rest(user):
                subscribers[user] = list(self.users.durable.by_user[user])
                self._reported_users.add(user)
            elif user in self._reported_users:
                self._reported_users.discard(user)
                left.append(user)
        return subscribers, left

    def put_back(self, report: LoadReport) -> None:
        """It did not arrive: the next one is full."""
        self.context.changed, self.context.changed_users, self.context.reporting = {}, {}, False
        self._outcomes = report.outcomes + self._outcomes
        self.sent = report.sent | self.sent

    def ordered(self, event: ev.Ordered, out: Out) -> None:
        if event.orders.alternatives not in ({}, self.context.alternatives):
            self.context.alternatives = event.orders.alternatives
        for order in event.orders.migrations:
            if not self.order(order, out):
                self._outcomes.append(FailedMigration(order.ticket, "the subscriber is not here"))
        for name in event.orders.drop:
            if name in self.sessions.by_subscriber:
                peer = self.sessions.by_subscriber[name]
                user = self.context.sessions[peer].user
                self.sessions.close(peer, close_codes.MIGRATED, "served by another broker", out)
                if user is not None:
                    self.users.elsewhere(ev.UserElsewhere(user), out)
            elif self.users.served_over_rest(name):
                self.users.drop(name, out)

    def order(self, order: MigrationOrder, out: Out) -> bool:
        """Passes it on to the subscriber; False if that is not here."""
        name = order.subscriber
        peer = self.sessions.by_subscriber.get(name)
        message = wire.Migrate(order.broker, order.url, order.ticket)
        if peer is not None:
            self.context.send(self.context.sessions[peer], message, out)
        elif self.users.served_over_rest(name):
            self.users.migrate(name, message, out)
        else:
            return False
        return True

    def migration_failed(self, session: Session, message: wire.MigrationFailed, out: Out) -> None:
        if self.departures.refused(message.ticket):
            return
        if len(self._outcomes) < 10_000:
            self._outcomes.append(FailedMigration(message.ticket, message.reason or "the subscriber stays"))

    # -- for the operator

    def largest_lag(self) -> int:
        """Executions that the slowest subscriber has still to get; counts those without results for it too."""
        by_id = self.be_subscriptions.by_id
        lags = [
            by_id[id].delivered - execution
            for session in self.context.sessions.values()
            if session.not_live
            for id, execution in session.subscriptions.items()
            if execution != LIVE
        ]
        return max(lags, default=0)

    def report(self, now: float) -> Report:
        """The load at this moment."""
        counters, sessions = self.context.ledger.counters, self.context.sessions.values()
        by_id, fetches = self.be_subscriptions.by_id, self.be_subscriptions.replay.fetches
        return Report(
            self.context.config.name,
            len(sessions),
            sum(session.congested for session in sessions),
            sum(len(each.waiting) for each in by_id.values()),
            sum(len(channel.queue) for channel in self.be_subscriptions.channels.values()),
            len(fetches.jobs) + len(fetches.queue),
            counters.bytes_in,
            counters.bytes_out,
            counters.deliveries,
            counters.notifications,
            [
                BESubscriptionLoad(
                    each.id,
                    each.channel.name,
                    self._receivers(each),
                    each.lam.per_second(now),
                    each.lam.bytes_per_second(now),
                )
                for each in by_id.values()
            ],
        )

    def _receivers(self, subscription: BESubscription) -> int:
        """n: connected subscribers, and users over REST, each counted once."""
        sessions = self.context.sessions
        connected = sum(
            not sessions[peer].rest for peers in (subscription.live, subscription.waiting) for peer in peers
        )
        return connected + sum(self.users.served_over_rest(user) for user in subscription.users)
