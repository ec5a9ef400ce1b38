"""The client's side of ``tocsin.v1.json`` as a pure state machine: events in, instructions out.

It has no socket, clock or randomness of its own: asyncio drives it in production, the simulator in experiments. It
keeps what outlives a connection: subscriptions with their positions, unsubscribes that were not sent, and records
without an answer.

A migration makes before it breaks: a second connection resumes everything while the first goes on. When all of it is
live there, the second becomes the current one; the first stays until its last request is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, islice
from random import Random
from typing import Any

from tocsin.client.core import events as ev
from tocsin.client.core.access_token import AccessToken
from tocsin.client.core.broker_candidates import Candidate, Candidates, is_encrypted
from tocsin.client.core.connection_state import LATE, TIMEOUT, ConnectionState, Stage, ended_by
from tocsin.client.core.publications import Publications
from tocsin.client.core.session import Role
from tocsin.client.core.subscriber_id import new_subscriber
from tocsin.client.core.subscriptions import Subscriptions
from tocsin.client.notification import Status
from tocsin.errors import Conflict, ConnectionLost, TocsinError, Unreachable, UserError
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.backoff import Backoff

#: Seconds for a migration, from the broker's message until everything is live on the other one.
MIGRATION = 30.0
#: Seconds for the last answers of the broker that the client has left.
LINGER = 10.0
#: Seconds between two acks.
ACK_EVERY = 1.0
#: Positions in one ack; the protocol allows no more.
MOST_ACKED = 10_000
#: Characters of a reason; the protocol allows no more.
MOST_REASON = 256
#: Brokers of a coordinator that a client without ``wait_for_broker`` tries before it gives up.
TRIES = 3
#: After these the client does not try the same broker first.
ELSEWHERE = (close_codes.MIGRATED.code, close_codes.TRY_LATER.code)

SHOWN = {Stage.READY: "connected", Stage.WAITING: "waiting", Stage.STOPPED: "closed"}


class ClientState:
    """``wait_for_broker``: retry even if no broker has ever answered. ``login``: there is a user with a password.

    ``coordinator``: there is one, and it chooses the broker. ``nearest``: it receives measured round trips.
    """

    def __init__(
        self,
        urls: Sequence[str],
        random: Random,
        *,
        token: str | None = None,
        login: bool = False,
        agent: str = "",
        wait_for_broker: bool = False,
        subscriber: str | None = None,
        coordinator: bool = False,
        encrypted: bool = False,
        nearest: bool = False,
    ) -> None:
        self.subscriber = new_subscriber(random) if subscriber is None else subscriber
        self.candidates = Candidates(urls, coordinator=coordinator)
        self.access = AccessToken(token)
        self.current: ConnectionState | None = None
        self.joining: ConnectionState | None = None
        self.leaving: ConnectionState | None = None
        self.welcome: wire.Welcome | None = None
        self.connects = 0
        self.migrations = 0
        self.problem = ""
        self._login, self._agent, self._coordinator = login, agent, coordinator
        self._wait_for_broker, self._nearest = wait_for_broker, nearest
        self._encrypted = encrypted  # the connection to the coordinator
        self._random, self._backoff = random, Backoff(random)
        self._stage = Stage.IDLE  # while there is no connection
        self._same = False  # try the same broker again, without the coordinator
        self._returning = False  # to the broker whose connection broke
        self._now = 0.0
        self._asked_at = 0.0
        self._acked_at = float("-inf")
        self._wake: float | None = None
        self._timer: float | None = None
        self._out: list[ev.Instruction] = []
        self._ids, self._numbers = count(1), count(1)
        self._placements = 0
        self.subscriptions = Subscriptions(self._do, Backoff(random))
        self.publications = Publications(self._do, self._ids)
        self._events: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.OpenRequested: self._opened,
            ev.Connected: self._connected,
            ev.Disconnected: self._disconnected,
            ev.Received: self._received,
            ev.LoggedIn: self._logged_in,
            ev.LoginFailed: self._login_failed,
            ev.Placed: self._placed,
            ev.PlacementFailed: self._not_placed,
            ev.RoundTripsMeasured: self._measured,
            ev.SubscribeRequested: self._subscribe,
            ev.UnsubscribeRequested: lambda event: self.subscriptions.unsubscribe(event, self.token is not None),
            ev.PublishRequested: self._publish,
            ev.PublishCancelled: lambda event: self.publications.cancel(event.request, self.connections),
            ev.Consumed: self.subscriptions.consumed,
            ev.CloseRequested: self._close,
            ev.Timer: self._timed,
        }
        self._answers: dict[type[Any], Callable[[ConnectionState, Any], None]] = {
            wire.Welcome: self._welcomed,
            wire.Subscribed: lambda connection, message: connection.session.subscribed(message),
            wire.Unsubscribed: lambda connection, message: connection.session.unsubscribed(message.id),
            wire.Published: lambda connection, message: self.publications.published(message, connection, self._outlet),
            wire.Error: self._refused,
            wire.Notify: lambda connection, message: connection.session.notify(message),
            wire.Live: lambda connection, message: connection.session.live(message),
            wire.Lagging: lambda connection, message: connection.session.lagging(message),
            wire.Gap: lambda connection, message: connection.session.gap(message),
            wire.Ended: lambda connection, message: connection.session.ended(message),
            wire.Migrate: self._migrate,
            wire.Ping: self._pinged,
            wire.Pong: lambda connection, message: None,
        }

    def handle(self, event: ev.Event, now: float) -> list[ev.Instruction]:
        self._now = now
        self._events[type(event)](event)
        self._settle()
        out, self._out = self._out, []
        return out

    @property
    def stage(self) -> Stage:
        return self._stage if self.current is None else self.current.stage

    @property
    def connections(self) -> list[ConnectionState]:
        return [connection for connection in (self.current, self.joining, self.leaving) if connection is not None]

    @property
    def token(self) -> str | None:
        return self.access.value

    @property
    def url(self) -> str:
        return self.candidates.here.url

    @property
    def status(self) -> Status:
        subscriptions = self.subscriptions.by_handle.values()
        here = self.welcome if self.stage is Stage.READY else None
        return Status(
            state=SHOWN.get(self.stage, "connecting"),
            url=self.url,
            broker=here.broker if here else None,
            user=here.user if here else None,
            subscriptions=len(subscriptions),
            pending=sum(each.pending for each in subscriptions),
            connects=self.connects,
            migrations=self.migrations,
            duplicates=self.subscriptions.duplicates,
            gaps=self.subscriptions.gaps,
            problem=self.problem,
        )

    @property
    def _outlet(self) -> ConnectionState | None:
        """The connection for new requests."""
        return self.current if self.current is not None and self.current.ready else None

    def _do(self, instruction: ev.Instruction) -> None:
        self._out.append(instruction)

    def _flush(self) -> None:
        """All messages of one event go into one frame of each connection."""
        for connection in self.connections:
            if connection.outbox:
                self._do(ev.Send(connection.number, connection.outbox, connection.frame_bytes))
                connection.outbox = []

    # -- finding a broker ----------------------------------------------------------------------------------------------

    def _opened(self, event: ev.OpenRequested) -> None:
        if self.stage is Stage.IDLE:
            self._try()

    def _try(self) -> None:
        self._wake = None
        self._asked_at = self._now
        if self._coordinator and not self._same:
            self._stage = Stage.PLACING
            self._placements += 1
            if self._nearest and self.candidates.due(self._now):
                self._do(ev.MeasureRoundTrips(self._placements))
            else:
                self._request_broker()
        else:
            self._go()

    def _request_broker(self) -> None:
        self._do(ev.RequestBroker(self._placements, list(self.candidates.failed), self.candidates.distances))

    def _measured(self, event: ev.RoundTripsMeasured) -> None:
        if self.stage is Stage.PLACING and event.request == self._placements:
            self.candidates.measured(event.distances, self._now)
            self._request_broker()

    def _go(self) -> None:
        if self._login and self.token is None:
            self._stage = Stage.LOGIN
            self._do(ev.Login("" if self._coordinator else self.url))
        else:
            self._same = False
            self.current = self._connect(self.candidates.use(), Role.CURRENT)

    def _connect(self, candidate: Candidate, role: Role) -> ConnectionState:
        connection = ConnectionState(next(self._numbers), candidate, self.subscriptions, self._ids, role, self._now)
        self._do(ev.Connect(connection.number, candidate.url))
        return connection

    def _placed(self, event: ev.Placed) -> None:
        if self.stage is Stage.PLACING and event.request == self._placements:
            if self._encrypted and not is_encrypted(event.url):
                why = f"the coordinator, which is on TLS, names a broker without TLS: {event.url}"
                self._not_placed(ev.PlacementFailed(event.request, Unreachable(why)))
                return
            self.candidates.assign(Candidate(event.url, event.broker, event.ticket))
            self._go()

    def _not_placed(self, event: ev.PlacementFailed) -> None:
        """Without an answer of the coordinator, the client tries the brokers it knows."""
        if self.stage is not Stage.PLACING or event.request != self._placements:
            return
        self.problem = event.error.message
        self.candidates.failed.clear()
        if self.candidates.urls:
            self.candidates.next()
            self._go()
        elif isinstance(event.error, UserError) or not (self.connects or self._wait_for_broker):
            self._stop(event.error)
        else:
            self._try_later(event.error.message)

    def _logged_in(self, event: ev.LoggedIn) -> None:
        if self.stage is Stage.STOPPED:
            return
        self.access.renew(event.token, event.seconds, self._now, fresh=self.stage is Stage.LOGIN)
        if self.stage is Stage.LOGIN:
            self._go()
        for connection in self.connections:
            if connection.online:
                connection.send(wire.Authenticate(event.token))

    def _login_failed(self, event: ev.LoginFailed) -> None:
        if self.stage is not Stage.LOGIN:
            if not isinstance(event.error, UserError):  # otherwise the broker says so when the token has expired
                self.access.retry(self._now)
            return
        self._same = False
        if isinstance(event.error, UserError):
            self._stop(event.error)
        else:
            self._try_later(event.error.message)

    # -- connections ---------------------------------------------------------------------------------------------------

    def _find(self, connection: int) -> ConnectionState | None:
        return next((each for each in self.connections if each.number == connection), None)

    def _connected(self, event: ev.Connected) -> None:
        connection = self._find(event.connection)
        if connection is None or connection.stage is not Stage.CONNECTING:
            return
        connection.stage = Stage.GREETING
        connection.last_received = self._now
        connection.send(
            wire.Hello(next(self._ids), self.token, self._agent, self.subscriber, connection.candidate.ticket)
        )
        self.subscriptions.begin(connection.session)

    def _welcomed(self, connection: ConnectionState, message: wire.Welcome) -> None:
        if connection.stage is not Stage.GREETING:
            return
        connection.stage = Stage.READY
        connection.welcome = message
        connection.ready_at = self._now
        connection.session.broker = message.broker
        if connection is self.current:
            self._arrived(connection, message)

    def _arrived(self, connection: ConnectionState, message: wire.Welcome) -> None:
        self.welcome = message
        self.problem = ""
        self.connects += 1
        self.access.fresh = False
        self.candidates.welcomed(message.broker)
        self.candidates.learn(message.alternatives, self._random)
        if self.connects == 1:
            self._do(ev.Opened())
        self.publications.start(connection)

    def _disconnected(self, event: ev.Disconnected) -> None:
        connection = self._find(event.connection)
        if connection is not None:
            self._lost(connection, event.code, event.reason)

    def _drop(self, connection: ConnectionState, code: int | None = None) -> None:
        self._do(ev.Close(connection.number, code if connection.online else None))

    def _lost(self, connection: ConnectionState, code: int | None, reason: str) -> None:
        known = close_codes.CLOSES.get(code or 0)
        problem = reason or (known.meaning if known else "the connection broke")
        if connection is self.joining:
            self.joining = None
            self._stay(connection, problem)
        elif connection is self.leaving:
            self.leaving = None
            self._forget(connection)
        elif self.joining is not None and self.joining.ready:
            self._take_over(self.joining)
            self.leaving = None
            self._forget(connection)
        else:
            if self.joining is not None:
                self._drop(self.joining, close_codes.NORMAL.code)
                self.subscriptions.lost(self.joining.session, durable=False)
                self.joining = None
            self.current = None
            self._forget(connection)
            self._come_back(connection, code, problem, reason)

    def _forget(self, connection: ConnectionState) -> None:
        """No more answers come on this connection."""
        self.subscriptions.lost(connection.session, durable=self.token is not None)
        self.publications.lost(connection)
        if self._outlet is not None:
            self.publications.start(self._outlet)

    def _come_back(self, connection: ConnectionState, code: int | None, problem: str, reason: str) -> None:
        self._stage = Stage.WAITING
        brokers = max(1, len(self.candidates.urls))
        if connection.ready and self._now - connection.ready_at > self._backoff.ceiling(brokers):
            self._backoff.reset()  # the connection lasted longer than the wait for it
        if code == close_codes.UNAUTHORIZED.code and self._login and not self.access.fresh:
            self.access.refused()
            self._same = True
            self._try()
        elif code == close_codes.BAD_TICKET.code and connection.candidate.ticket is not None:
            self._same = True
            self._try()
        elif not close_codes.reconnect(code):
            self._stop(ended_by(self.url, code, reason))
        else:
            wait, returning = None, self._returning
            if connection.welcome is not None and code is None and not self._backoff.failures:
                # All its other clients come back now too.
                wait = self._backoff.scattered(connection.welcome.reconnect_within)
            elif returning and not connection.ready and self._backoff.failures == 1:
                wait = 0.0  # it has waited once, and its broker is gone
            self._same = connection.ready and (self._coordinator or self.candidates.assigned) and code not in ELSEWHERE
            self._returning = self._same
            self._try_later(problem, wait)

    def _try_later(self, problem: str, wait: float | None = None) -> None:
        """Without ``wait``, the backoff decides."""
        self.problem = problem
        brokers = max(1, len(self.candidates.urls))
        if wait is None:
            wait = self._backoff.next(brokers)
        most = max(TRIES, brokers) if self._coordinator else brokers
        if not (self.connects or self._wait_for_broker) and self._backoff.failures >= most:
            where = " or ".join(self.candidates.urls)
            hint = "start one with `tocsin up` or `tocsin broker`"
            self._stop(Unreachable(f"no broker answers at {where}: {problem}", hint=hint))
            return
        if self._coordinator and not self._same:
            self.candidates.fail()
        elif not self._same:
            self.candidates.next()
        self._stage = Stage.WAITING
        self._wake = self._now + wait

    def _stop(self, error: TocsinError | None) -> None:
        if self.stage is Stage.STOPPED:
            return
        connections = self.connections
        for connection in connections:
            self._drop(connection, close_codes.NORMAL.code)
        self.current = self.joining = self.leaving = None
        self._stage = Stage.STOPPED
        self._wake = self.access.refresh_at = None
        if error is not None:
            self.problem = error.message
        self.subscriptions.stop(error)
        for connection in connections:
            self.publications.lost(connection)
        self.publications.stop(error or ConnectionLost("the client was closed before the records were sent"))
        self._do(ev.Stopped(error))

    def _close(self, event: ev.CloseRequested) -> None:
        if self.token is not None:
            self._ack()
        self._flush()
        self._stop(None)

    # -- migration -----------------------------------------------------------------------------------------------------

    def _migrate(self, connection: ConnectionState, message: wire.Migrate) -> None:
        candidate = Candidate(message.url, message.broker, message.ticket or None)
        if self.joining is not None and self.joining.candidate == candidate:
            return
        if why := self._why_not(connection, message):
            connection.send(wire.MigrationFailed(message.ticket, why))
            return
        if self.joining is not None:
            self._give_up("there is a newer migration")
        self.joining = self._connect(candidate, Role.JOINING)
        self.joining.until = self._now + MIGRATION

    def _why_not(self, connection: ConnectionState, message: wire.Migrate) -> str:
        if connection is not self.current:
            return "this is not the client's current connection"
        if self.leaving is not None:
            return "the client has not finished its last migration"
        return connection.refuses(message)

    def _give_up(self, why: str) -> None:
        """The client stays on its current connection."""
        assert self.joining is not None
        connection, self.joining = self.joining, None
        self._drop(connection, close_codes.NORMAL.code)
        self._stay(connection, why)

    def _stay(self, connection: ConnectionState, why: str) -> None:
        self.subscriptions.lost(connection.session, durable=False)
        if self.current is not None and self.current.online and connection.candidate.ticket is not None:
            self.current.send(wire.MigrationFailed(connection.candidate.ticket, why[:MOST_REASON]))

    def _take_over(self, connection: ConnectionState) -> None:
        old = self.current
        assert old is not None and connection.welcome is not None
        self.current, self.joining, self.leaving = connection, None, old
        old.session.role = Role.LEAVING
        old.until, connection.until = self._now + LINGER, None
        self.candidates.assign(Candidate(connection.candidate.url, connection.candidate.broker))
        self._backoff.reset()
        connection.session.become_current()
        self.migrations += 1
        self._arrived(connection, connection.welcome)

    def _settle_migration(self) -> None:
        """Completes or gives up a migration, and closes the old connection once its requests are answered."""
        connection = self.joining
        if connection is not None and connection.session.failure:
            self._give_up(connection.session.failure)
        # While the application has max_pending notifications, the client does not wait for more to arrive.
        elif (
            connection is not None
            and connection.ready
            and connection.session.complete(live=not self.subscriptions.full)
        ):
            self._take_over(connection)
        if self.leaving is not None and not self.leaving.busy:
            self._leave()

    def _leave(self) -> None:
        assert self.leaving is not None
        self._flush()
        connection, self.leaving = self.leaving, None
        self._drop(connection, close_codes.NORMAL.code)
        self._forget(connection)

    # -- the application -----------------------------------------------------------------------------------------------

    def _subscribe(self, event: ev.SubscribeRequested) -> None:
        if self.stage is Stage.STOPPED:
            self._do(ev.Ended(event.handle, self._closed()))
        else:
            self.subscriptions.subscribe(event)

    def _publish(self, event: ev.PublishRequested) -> None:
        if self.stage is Stage.STOPPED:
            self._do(ev.Reject(event.request, self._closed()))
        else:
            self.publications.publish(event, self._outlet)

    def _closed(self) -> TocsinError:
        return Conflict("this client is closed" + (f": {self.problem}" if self.problem else ""))

    # -- the broker ----------------------------------------------------------------------------------------------------

    def _received(self, event: ev.Received) -> None:
        connection = self._find(event.connection)
        if connection is None or not connection.online:
            return
        connection.last_received = self._now
        for message in event.messages:
            self._answers[type(message)](connection, message)
            if connection is self.joining and connection.session.failure:
                return  # a notification is missing before what follows

    def _refused(self, connection: ConnectionState, message: wire.Error) -> None:
        if message.id is not None and connection.session.refused(message, self._now):
            return
        if message.id is not None and self.publications.refused(message, connection):
            return
        self.problem = message.message

    def _pinged(self, connection: ConnectionState, message: wire.Ping) -> None:
        connection.session.ping(message)
        if connection is self.current:
            self.candidates.learn(message.alternatives, self._random)
        if message.answer:
            connection.send(wire.Pong())

    def _ack(self) -> None:
        self._acked_at = self._now
        self.subscriptions.changed = False
        for connection in self.connections:
            if connection.online:
                positions = iter(connection.session.acks().items())
                while part := dict(islice(positions, MOST_ACKED)):
                    connection.send(wire.Ack(part))

    # -- time ----------------------------------------------------------------------------------------------------------

    def _timed(self, event: ev.Timer) -> None:
        slept = self._timer is not None and self._now - self._timer > LATE
        self._timer = None
        for connection in self.connections if slept else ():
            connection.extend_deadline(self._now)
        if self._wake is not None and self._now >= self._wake:
            self._try()
        elif self.stage is Stage.PLACING and self._now >= self._asked_at + TIMEOUT:
            self._not_placed(ev.PlacementFailed(self._placements, Unreachable("the coordinator does not answer")))
        if self.access.due(self._now):
            self._do(ev.Refresh("" if self._coordinator else self.url))
        for connection in self.connections:
            if connection in self.connections:  # the one before may have ended this one too
                self._check(connection)

    def _check(self, connection: ConnectionState) -> None:
        deadline = connection.deadline
        if deadline is not None and self._now >= deadline:
            self._do(ev.Close(connection.number))
            self._lost(connection, None, f"nothing arrived from {connection.candidate.url} for too long")
        elif connection.until is not None and self._now >= connection.until:
            if connection is self.joining:
                self._give_up("not everything was live in time")
            else:
                self._leave()
        else:
            if connection.beat_at is not None and self._now >= connection.beat_at:
                # Reading is paused, and so are answers to pings: the broker must not take the client for dead.
                connection.beat_at = None
                connection.send(wire.Pong())
            connection.session.timer(self._now)

    def _settle(self) -> None:
        """After each event: migration, acks, one frame for all messages, pausing, the timer."""
        self._settle_migration()
        ack_at = None
        if self.token is not None and self.stage is Stage.READY and self.subscriptions.changed:
            if self._now >= self._acked_at + ACK_EVERY:
                self._ack()
            else:
                ack_at = self._acked_at + ACK_EVERY
        self._flush()
        times = [self._wake, ack_at, self.access.refresh_at]
        if self.stage is Stage.PLACING:
            times.append(self._asked_at + TIMEOUT)
        for connection in self.connections:
            self._pause(connection)
            times += [connection.deadline, connection.until, connection.session.retry_at, connection.beat_at]
        due = min((at for at in times if at is not None), default=None)
        if due is not None and (self._timer is None or due < self._timer):
            self._timer = due
            self._do(ev.SetTimer(due))

    def _pause(self, connection: ConnectionState) -> None:
        """Answers come after notifications in the stream: with requests in flight, the client reads on."""
        pause = bool(self.subscriptions.full) and not connection.busy and connection.ready
        if pause and connection.beat_at is None and connection.heartbeat > 0:
            connection.beat_at = self._now + connection.heartbeat
        if not pause:
            connection.beat_at = None
        if pause != connection.paused:
            connection.paused = pause
            connection.last_received = self._now
            self._do(ev.Read(connection.number, not pause))
