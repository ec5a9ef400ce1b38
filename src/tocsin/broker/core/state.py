"""The broker as a pure state machine: ``handle(event, now) -> [instruction]``. No sockets, no clock, no random numbers.

FE subscriptions (a subscriber's) with the same channel and arguments share one BE subscription (the data cluster's).
What the data cluster has committed is the truth: live delivery is a short cut, and a subscriber that missed something,
for whatever reason, gets it from there by its position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocsin.balancing.catalogue.places import BROKERS, catalogue
from tocsin.balancing.catalogue.view import CatalogueView, view
from tocsin.broker.core import events as ev
from tocsin.broker.core.access import Access
from tocsin.broker.core.balancing.peer_balancer import BalancingView, Means, PeerBalancer
from tocsin.broker.core.be_subscriptions import BESubscriptions
from tocsin.broker.core.context import Context, Out
from tocsin.broker.core.delivery import Delivery
from tocsin.broker.core.durable_subscriptions import DurableSubscriptions
from tocsin.broker.core.instructions import Failed, Instruction
from tocsin.broker.core.load_reports import LoadReports
from tocsin.broker.core.model.cache import Cache
from tocsin.broker.core.model.ledger import Counters
from tocsin.broker.core.publications import Publications
from tocsin.broker.core.sessions import Sessions
from tocsin.broker.core.user_sessions import UserSessions
from tocsin.config import BrokerConfig
from tocsin.wire import messages as wire


class BrokerState:
    """Owns the parts, and gives each event to one of them. Instructions are gathered in a list of the call, so that a
    handler that fails leaves none of them to the next call.

    ``refuses_ticket`` says what is wrong with a subscriber's ticket; without a coordinator, each of them is wrong.
    ``means``: for a broker that balances with others, by itself.
    """

    def __init__(
        self,
        config: BrokerConfig,
        refuses_ticket: Callable[[str, str], str | None] = lambda ticket, subscriber: "there is no coordinator",
        means: Means | None = None,
    ) -> None:
        self.config = config
        self.context = Context(config)
        self.access = Access(config.anonymous)
        self.be_subscriptions = BESubscriptions(self.context, DurableSubscriptions(self.context), self.access)
        self.replay = self.be_subscriptions.replay
        self.delivery = Delivery(self.context, self.be_subscriptions, self.replay)
        self.sessions = Sessions(self.context, self.be_subscriptions, refuses_ticket)
        self.users = UserSessions(self.context, self.sessions, self.be_subscriptions)
        self.load_reports = LoadReports(self.context, self.sessions, self.be_subscriptions, self.users)
        self.publications = Publications(self.context, self.access)
        self.balancing: PeerBalancer | None = None
        self._handlers: dict[type[Any], Callable[[Any, Out], None]] = {
            ev.Opened: self.sessions.opened,
            ev.OpenedForUser: self.users.opened,
            ev.Closed: self.sessions.closed,
            ev.Received: self.sessions.received,
            ev.Unreadable: self.sessions.unreadable,
            ev.Congested: self.replay.congested,
            ev.Drained: self.replay.drained,
            ev.Authenticated: self.users.authenticated,
            ev.Restored: self.users.restored,
            ev.UserEnded: self.users.ended,
            ev.UserRevoked: self.users.revoked,
            ev.UsersAway: self.be_subscriptions.users_away,
            ev.Stored: self.be_subscriptions.stored,
            ev.UsersRestored: self.be_subscriptions.users_restored,
            ev.UserElsewhere: self.users.elsewhere,
            ev.Notified: self.delivery.notified,
            ev.Pulled: self.delivery.pulled,
            ev.Publications: self.delivery.publications,
            ev.Missed: self.delivery.missed,
            ev.Subscribed: self.be_subscriptions.subscribed,
            ev.Unsubscribed: self.be_subscriptions.unsubscribed,
            ev.Recovered: self.be_subscriptions.recovered,
            ev.Dropped: self.be_subscriptions.dropped,
            ev.Fetched: self.replay.fetched,
            ev.FetchGap: self.replay.fetch_gap,
            ev.FetchEarly: self.replay.fetch_early,
            ev.Published: self.publications.published,
            ev.PublishFailed: self.publications.failed,
            ev.GrantsChanged: self._grants_changed,
            ev.Ordered: self.load_reports.ordered,
            ev.Tick: self._tick,
            ev.Stopping: self.sessions.stopping,
        }
        if config.balancing.mode == "peers":
            self._balance_with_peers(means)
        self.sessions.requests.update(
            {
                wire.Hello: self.sessions.hello,
                wire.Authenticate: self.sessions.authenticate,
                wire.Subscribe: self.be_subscriptions.subscribe,
                wire.Unsubscribe: self.be_subscriptions.unsubscribe,
                wire.Publish: self.publications.publish,
                wire.Ack: self.users.ack,
                wire.MigrationFailed: self.load_reports.migration_failed,
                wire.Ping: self.sessions.ping,
                wire.Pong: self.sessions.pong,
            }
        )

    def _balance_with_peers(self, means: Means | None) -> None:
        assert means is not None, "a broker among peers needs a driver that provides tickets and random numbers"
        self.balancing = balancing = PeerBalancer(
            self.context, self.sessions, self.be_subscriptions, self.users, self.load_reports, means
        )
        self._handlers |= {
            ev.PeersKnown: balancing.known,
            ev.PeerMessage: balancing.received,
            ev.PeerAnswered: balancing.answered,
            ev.PeerUnreachable: balancing.unreachable,
            ev.DrainSelf: balancing.drain,
            ev.UseStrategy: balancing.use,
        }

    def balancing_view(self) -> BalancingView:
        mode = self.config.balancing.mode
        return BalancingView(mode, "", {}) if self.balancing is None else self.balancing.view()

    def balancing_components(self) -> CatalogueView:
        """Without peers only what exists: nothing of it runs here."""
        return view(catalogue(BROKERS)) if self.balancing is None else self.balancing.components()

    @property
    def counters(self) -> Counters:
        return self.context.ledger.counters

    @property
    def cache(self) -> Cache:
        return self.context.ledger.cache

    def handle(self, event: ev.Event, now: float) -> list[Instruction]:
        """The same events at the same times give the same instructions."""
        context = self.context
        context.ledger.book()
        context.now = max(context.now, now)  # a clock that jumps back does not bring anything back
        out: Out = []
        if self.sessions.next_expiry <= context.now:
            self.sessions.expire(out)
        before = len(out)
        try:
            self._handlers[type(event)](event, out)
        except Exception as error:
            if not isinstance(event, ev.Notified | ev.Pulled):
                raise
            self._recover(event, error, out, before)
        out += self.replay.fetches.start()
        context.ledger.book()
        return out

    def on_notify(self, notifications: Sequence[ev.Notified], now: float) -> list[Instruction]:
        """As ``handle`` of each. Nothing is as frequent, so the ledger waits."""
        context = self.context
        if now > context.now:
            context.now = now
        out: Out = []
        if self.sessions.next_expiry <= context.now:
            self.sessions.expire(out)
        notified = self.delivery.notified
        for notification in notifications:
            before = len(out)
            try:
                notified(notification, out)
            except Exception as error:
                self._recover(notification, error, out, before)
        if self.replay.fetches.queue:
            out += self.replay.fetches.start()
        return out

    def _recover(self, event: ev.Notified | ev.Pulled, error: Exception, out: Out, before: int) -> None:
        """The data cluster would not repeat it, so that its subscribers would miss it."""
        del out[before:]
        out.append(Failed(error))
        self.delivery.recover(event, out)

    def _grants_changed(self, event: ev.GrantsChanged, out: Out) -> None:
        first = not self.access.known
        narrowed = self.access.change(event.table)
        if first:
            self.be_subscriptions.granted(out)
            self.publications.granted(out)
        elif narrowed:
            self.be_subscriptions.narrow(narrowed, out)

    def _tick(self, event: ev.Tick, out: Out) -> None:
        self.sessions.tick(out)
        self.users.tick()
        self.be_subscriptions.expire(out)
        self.replay.fetches.retry()
        self.sessions.beat(out)
        if self.balancing is not None:
            self.balancing.tick(out)
