"""Sessions of users: what is durable for them here, their requests over REST, and their migrations."""

from __future__ import annotations

from tocsin.broker.core import events as ev
from tocsin.broker.core.be_subscriptions import BESubscriptions
from tocsin.broker.core.context import Context, Out
from tocsin.broker.core.instructions import Acknowledge
from tocsin.broker.core.model.be_subscription import DurableRequest
from tocsin.broker.core.model.session import Session
from tocsin.broker.core.sessions import Sessions
from tocsin.wire import close_codes
from tocsin.wire import messages as wire

#: Seconds without a request over REST after which a user counts as offline.
REST_IDLE = 120.0
#: Seconds for which a user is asked to migrate: as long as the coordinator waits for its arrival.
MIGRATION_SECONDS = 45.0


class UserSessions:
    """A user over REST has no connection: it is a subscriber of this broker while its requests come."""

    def __init__(self, context: Context, sessions: Sessions, be_subscriptions: BESubscriptions) -> None:
        self.context = context
        self.sessions = sessions
        self.be_subscriptions = be_subscriptions
        self.durable = be_subscriptions.durable
        self._last_request: dict[str, float] = {}  # over REST; the latest is the last
        self._migrations: dict[str, tuple[float, wire.Migrate]] = {}  # until when

    # -- sessions

    def authenticated(self, event: ev.Authenticated, out: Out) -> None:
        session = self.context.sessions.get(event.peer)
        if session is None or session.rest:
            return
        if event.failed:
            if not session.welcomed:  # a client that is connected tries again
                self.sessions.close(session.peer, close_codes.UNVERIFIED, "the token cannot be checked now", out)
            return
        if event.user is None:
            self.sessions.close(session.peer, close_codes.UNAUTHORIZED, event.problem, out)
            return
        self.sessions.expire_at(session, event.issued, event.expires)
        if session.queued is None:
            if session.user != event.user:
                self.sessions.close(session.peer, close_codes.UNAUTHORIZED, "the token is another session's", out)
            else:
                session.principal = event.principal
                self.be_subscriptions.check_session(session, out)
            return
        (hello, *queued), session.queued = session.queued, None
        assert isinstance(hello, wire.Hello)
        session.user, session.principal = event.user, event.principal
        if not self.sessions.admit(session, hello, out):
            return
        before = self.sessions.by_user.get(event.user)
        if before is not None:
            self.sessions.close(before, close_codes.REPLACED, "connected again", out)
        self.sessions.by_user[event.user] = session.peer
        self._rest_ended(event.user)
        self.restored(event, out)
        self.sessions.welcome(session, hello.id, event.durable, out)
        self.sessions.received(ev.Received(session.peer, queued), out)

    def opened(self, event: ev.OpenedForUser, out: Out) -> None:
        user, limits = event.user, self.context.limits
        session = self.sessions.open_for_user(event.peer, user, event.principal)
        if len(self.context.sessions) > limits.connections or len(self.sessions.rest[user]) > limits.requests_per_user:
            self.sessions.close(event.peer, close_codes.TRY_LATER, "too many requests at the same time", out)
            return
        self.sessions.expire_at(session, event.issued, event.expires)
        if self._last_request.pop(user, None) is None:
            self.context.touch_user(user)
        self._last_request[user] = self.context.now
        if user in self._migrations:
            self.context.send(session, self._migrations[user][1], out)

    def restored(self, event: ev.Restored | ev.Authenticated, out: Out) -> None:
        """Subscribes to what is durable for the user, and to nothing else: another broker may have ended some of it."""
        user = event.user
        if user is None:
            return
        self.be_subscriptions.keep_durable(user, {each.subscription for each in event.durable})
        for each in event.durable:
            if not self.durable.has(user, each.subscription):
                request = DurableRequest(user, each.subscription, each.after, each.previous_ids, each.epoch)
                self.be_subscriptions.restore(each.channel, each.args, request, out)

    def ended(self, event: ev.UserEnded, out: Out) -> None:
        for session in self._connected(event.user):
            self.sessions.close(session.peer, close_codes.LOGGED_OUT, "", out)
        self._release(event.user)

    def revoked(self, event: ev.UserRevoked, out: Out) -> None:
        for session in self._connected(event.user):
            if session.issued <= event.before:
                self.sessions.close(session.peer, close_codes.UNAUTHORIZED, "the token was revoked", out)

    def _connected(self, user: str) -> list[Session]:
        peers = [self.sessions.by_user[user]] if user in self.sessions.by_user else []
        return [self.context.sessions[peer] for peer in [*peers, *self.sessions.rest.get(user, ())]]

    def present(self) -> set[str]:
        """Users with a connection or a request."""
        return {*self.sessions.by_user, *self.sessions.rest, *self._last_request}

    def offline(self) -> list[str]:
        """Users whose durable subscriptions are served here, and who are not connected."""
        connected = self.sessions.by_user.keys() | self.sessions.rest.keys()
        return [user for user in self.durable.by_user if user not in connected]

    def elsewhere(self, event: ev.UserElsewhere, out: Out) -> None:
        """The store stays as it is: it is the other broker's now."""
        if event.user not in self.sessions.by_user and event.user not in self.sessions.rest:
            self._release(event.user)

    def _release(self, user: str) -> None:
        self._rest_ended(user)
        self.be_subscriptions.release_user(user)

    def ack(self, session: Session, message: wire.Ack, out: Out) -> None:
        if session.user is None:
            return
        mine = self.durable.by_user.get(session.user, {})
        positions = {
            id: mine[id].channel.position(execution) for id, execution in message.positions.items() if id in mine
        }
        if positions:
            out.append(Acknowledge(session.user, positions))

    # -- users over REST as subscribers

    def served_over_rest(self, user: str) -> bool:
        return user in self._last_request and user in self.durable.by_user and user not in self.sessions.by_user

    def rest_users(self) -> list[str]:
        return [user for user in self._last_request if self.served_over_rest(user)]

    def migrate(self, user: str, message: wire.Migrate, out: Out) -> None:
        """Answers the requests of the user that are open, and those that come."""
        self._migrations[user] = (self.context.now + MIGRATION_SECONDS, message)
        for peer in self.sessions.rest.get(user, ()):
            self.context.send(self.context.sessions[peer], message, out)

    def drop(self, user: str, out: Out) -> None:
        """Another broker serves the user."""
        for peer in list(self.sessions.rest.get(user, ())):
            self.sessions.close(peer, close_codes.MIGRATED, "served by another broker", out)
        self._release(user)

    def tick(self) -> None:
        now = self.context.now
        for user, (deadline, _) in list(self._migrations.items()):
            if deadline <= now:
                del self._migrations[user]
        for user, last in list(self._last_request.items()):
            if last > now - REST_IDLE:
                break
            if user in self.sessions.rest:  # a long poll or a stream
                del self._last_request[user]
                self._last_request[user] = now
            else:
                self._rest_ended(user)

    def _rest_ended(self, user: str) -> None:
        self._migrations.pop(user, None)
        self._last_request.pop(user, None)
        self.context.touch_user(user)
