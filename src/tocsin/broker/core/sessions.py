"""Sessions: who may connect, the hello, heartbeats, and how connections end."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil, inf
from typing import Any

from tocsin.broker.core import events as ev
from tocsin.broker.core.be_subscriptions import BESubscriptions
from tocsin.broker.core.context import Context, Out
from tocsin.broker.core.events import Peer, Problem
from tocsin.broker.core.instructions import Authenticate, Close
from tocsin.broker.core.model.session import Session
from tocsin.identity.grants import Principal
from tocsin.identity.rate_limit import is_here
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.messages import DurableSubscription

#: Clients that reconnect in a tenth of a second if the broker vanishes, and the seconds that this may take at most.
RETURNING, LONGEST = 100, 10.0
#: Seconds between two ticks after which the broker must have slept; they come every second.
LATE = 2.5

#: Connections from one address, unless the configuration says otherwise.
PER_ADDRESS = 1_000

Requests = dict[type[Any], Callable[[Session, Any, Out], None]]


class Sessions:
    """``requests``: the handlers of the messages of a client, by type; the state machine fills it."""

    def __init__(
        self, context: Context, be_subscriptions: BESubscriptions, refuses_ticket: Callable[[str, str], str | None]
    ) -> None:
        self.context = context
        self.be_subscriptions = be_subscriptions
        self.refuses_ticket = refuses_ticket
        self.requests: Requests = {}
        self.by_peer = context.sessions
        self.by_subscriber: dict[str, Peer] = {}
        self.by_user: dict[str, Peer] = {}
        self.rest: dict[str, dict[Peer, None]] = {}  # requests of users over REST
        self._anonymous = 0
        self._expiring: list[tuple[float, int, Peer]] = []  # a heap
        self._expiries = 0
        self._hello_deadlines: dict[Peer, float] = {}
        self._addresses: dict[str, int] = {}
        self._beat = 0
        self._beats: list[dict[Peer, Session]] = [{} for _ in range(max(1, round(context.config.heartbeat)))]
        self._ticked: float | None = None
        self._woke = float("-inf")  # when it last found that it had slept

    # -- the life of a connection

    def opened(self, event: ev.Opened, out: Out) -> None:
        context, address = self.context, event.address
        limits, sessions = context.limits, context.sessions
        here = self._addresses.get(address, 0)
        many_here = here >= (limits.connections_per_address or (inf if is_here(address) else PER_ADDRESS))
        if len(sessions) >= limits.connections or many_here:
            what = f"connections from {address}" if many_here else "connections"
            self.close(event.peer, close_codes.TRY_LATER, f"too many {what}", out)
            return
        self._addresses[address] = here + 1
        session = sessions[event.peer] = Session(event.peer, address, context.now, {})
        self._hello_deadlines[event.peer] = context.now + context.config.hello_timeout
        self._beats[len(sessions) % len(self._beats)][event.peer] = session

    def open_for_user(self, peer: Peer, user: str, principal: Principal) -> Session:
        """A request over REST, which the driver has authenticated."""
        session = Session(peer, "", self.context.now, {}, user=user, principal=principal, welcomed=True, rest=True)
        self.context.sessions[peer] = session
        self.rest.setdefault(user, {})[peer] = None
        return session

    def expire_at(self, session: Session, issued: float, expires: float) -> None:
        """When the token of the session ends."""
        session.issued, session.expires = issued, expires
        if expires != inf:
            self._expiries += 1
            heappush(self._expiring, (expires, self._expiries, session.peer))

    def closed(self, event: ev.Closed, out: Out) -> None:
        session = self.context.sessions.pop(event.peer, None)
        if session is None:
            return
        self._hello_deadlines.pop(session.peer, None)
        for beat in self._beats:
            if beat.pop(session.peer, None) is not None:
                break
        if session.rest:
            assert session.user is not None
            mine = self.rest[session.user]
            del mine[session.peer]
            if not mine:
                del self.rest[session.user]
        else:
            left = self._addresses[session.address] - 1
            if left:
                self._addresses[session.address] = left
            else:
                del self._addresses[session.address]
        if session.user is not None and self.by_user.get(session.user) == session.peer:
            del self.by_user[session.user]
            self.context.touch_user(session.user)
        for id in session.subscriptions:
            self.be_subscriptions.detach(self.be_subscriptions.by_id[id], session.peer)
        if session.subscriber and self.by_subscriber.get(session.subscriber) == session.peer:
            del self.by_subscriber[session.subscriber]
            self.context.touch(session)

    def close(self, peer: Peer, close: close_codes.Close, reason: str, out: Out) -> None:
        closes = self.context.ledger.counters.closes
        closes[close.code] = closes.get(close.code, 0) + 1
        out.append(Close(peer, close, reason))
        self.closed(ev.Closed(peer), out)

    def stopping(self, event: ev.Stopping, out: Out) -> None:
        for peer in list(self.context.sessions):
            self.close(peer, close_codes.GOING_AWAY, "the broker stops", out)

    # -- messages

    def received(self, event: ev.Received, out: Out) -> None:
        context, peer = self.context, event.peer
        session = context.sessions.get(peer)
        if session is None:
            return
        session.last_received = context.now
        for place, message in enumerate(event.messages):
            if session.queued is not None:
                queued, limits = event.messages[place:], context.limits
                session.queued += queued
                session.queued_bytes += sum(len(wire.encode(each)) for each in queued)
                most_bytes = 2 * (limits.frame_bytes + limits.connection_argument_bytes)
                if len(session.queued) > limits.unanswered + limits.subscriptions or session.queued_bytes > most_bytes:
                    self.close(peer, close_codes.FLOOD, "too many requests before the welcome", out)
                return
            if session.welcomed is isinstance(message, wire.Hello):
                reason = "hello comes once" if session.welcomed else "hello comes first"
                self.close(peer, close_codes.NO_HELLO, reason, out)
                return
            context.ledger.counters.requests += 1
            self.requests[type(message)](session, message, out)
            if peer not in context.sessions:
                return

    def unreadable(self, event: ev.Unreadable, out: Out) -> None:
        session = self.context.sessions.get(event.peer)
        if session is None:
            return
        session.last_received = self.context.now
        if event.id is None or not session.welcomed:
            self.close(session.peer, close_codes.MALFORMED, event.problem, out)
        else:
            self.context.refuse(session, event.id, Problem("malformed", event.problem), out)

    def hello(self, session: Session, message: wire.Hello, out: Out) -> None:
        """Nothing happens before the token is verified."""
        if message.token is not None:
            session.queued = [message]
            out.append(Authenticate(session.peer, message.token))
        elif self.admit(session, message, out):
            self.welcome(session, message.id, [], out)

    def authenticate(self, session: Session, message: wire.Authenticate, out: Out) -> None:
        """Another token of the same session; the answer is that the connection stays."""
        if session.user is not None:
            out.append(Authenticate(session.peer, message.token))

    def admit(self, session: Session, hello: wire.Hello, out: Out) -> bool:
        """Ticket and identity. A subscriber has one session: one that connects again has lost the connection that it
        had. Its id is a secret of the client; that of a user's session needs the user's token too."""
        name = hello.subscriber
        before = None if name is None else self.by_subscriber.get(name)
        if hello.ticket is not None:
            problem = self.refuses_ticket(hello.ticket, name or "")
            if problem is not None:
                self.close(session.peer, close_codes.BAD_TICKET, problem, out)
                return False
        if before is not None and self.by_peer[before].user not in (None, session.user):
            self.close(session.peer, close_codes.UNAUTHORIZED, "this subscriber belongs to a user", out)
            return False
        if before is not None:
            self.close(before, close_codes.REPLACED, "connected again", out)
        if name is None:
            self._anonymous += 1
            name = f"{self.context.config.name}:{self._anonymous}"
        session.subscriber = name
        self.by_subscriber[name] = session.peer
        self.context.touch(session)
        if self.context.newcomers is not None and hello.ticket is None:
            self.context.newcomers.append(name)
        return True

    def welcome(self, session: Session, id: int, durable: list[DurableSubscription], out: Out) -> None:
        session.welcomed = True
        session.alternatives = self.context.alternatives
        self._hello_deadlines.pop(session.peer, None)
        config, limits = self.context.config, self.context.limits
        reconnect_within = min(LONGEST, ceil(len(self.context.sessions) / RETURNING) / 10)
        message = wire.Welcome(
            id,
            config.name,
            config.heartbeat,
            limits.frame_bytes,
            session.user,
            durable,
            reconnect_within,
            self.context.alternatives,
        )
        self.context.send(session, message, out)

    def ping(self, session: Session, message: wire.Ping, out: Out) -> None:
        self.context.send(session, wire.Pong(), out)

    def pong(self, session: Session, message: wire.Pong, out: Out) -> None:
        """Received: that is all it says."""

    # -- time

    def tick(self, out: Out) -> None:
        now = self.context.now
        if self._ticked is not None and now - self._ticked > LATE:
            # A broker that slept cannot say that its clients were silent: their messages wait to be read.
            self._woke = now
        self._ticked = now
        for peer, deadline in list(self._hello_deadlines.items()):
            if deadline > now or self._woke == now:
                break
            self.close(peer, close_codes.HELLO_TIMEOUT, "no hello", out)

    @property
    def next_expiry(self) -> float:
        """When the next token ends."""
        return self._expiring[0][0] if self._expiring else inf

    def expire(self, out: Out) -> None:
        """Before anything else happens: nothing is sent to a session whose token has ended."""
        now = self.context.now
        while self.next_expiry <= now:
            session = self.context.sessions.get(heappop(self._expiring)[2])
            if session is not None and session.expires <= now:
                self.close(session.peer, close_codes.UNAUTHORIZED, "the token has expired", out)

    def beat(self, out: Out) -> None:
        """Pings a part of the connections at each tick, so that the load is even. An answer is asked for in time."""
        beat, silence = self.context.config.heartbeat, self.context.config.silence
        if beat <= 0:
            return
        self._beat += 1
        round, part = divmod(self._beat, len(self._beats))
        sessions = self._beats[part]
        answer = round % max(1, int(silence / 3 / beat)) == 0
        limit = self.context.now - silence
        silent = [each for each in sessions.values() if max(each.last_received, self._woke - silence * 2 / 3) < limit]
        for session in silent:
            self.close(session.peer, close_codes.SILENT, f"no message in {silence:g} s", out)
        welcomed = [session for session in sessions.values() if session.welcomed]
        alternatives = self.context.alternatives
        if outdated := [session for session in welcomed if session.alternatives is not alternatives]:
            for session in outdated:
                session.alternatives = alternatives
            peers = tuple(session.peer for session in outdated)
            self.context.send_all(peers, wire.Ping(answer=False, alternatives=alternatives), out)
        channels = self.be_subscriptions.channels.values()
        positions = {channel.name: channel.delivered for channel in channels if channel.delivered}
        for message, peers in (
            (wire.Ping(positions, answer), tuple(session.peer for session in welcomed if not session.not_live)),
            (wire.Ping({}, answer), tuple(session.peer for session in welcomed if session.not_live)),
        ):
            if peers:
                self.context.send_all(peers, message, out)
