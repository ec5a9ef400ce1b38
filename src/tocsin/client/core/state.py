"""The client's side of ``tocsin.v1.json`` as a pure state machine: events in, instructions out.

It has no socket, no clock and no chance of its own: asyncio drives it in production, a simulator in experiments. It
keeps what a client must not forget while connections come and go: subscriptions with their cursors, goodbyes that
nobody has heard yet, records without an answer.

A move makes before it breaks: a second connection is made and resumes everything while the first goes on. When all of
it is live there, the two change places; the first one stays until its last request is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, islice
from random import Random
from string import ascii_letters, digits
from typing import Any

from tocsin.client.core import events as ev
from tocsin.client.core.broker_candidates import Candidate, Candidates
from tocsin.client.core.connection_state import CAUTIOUS_FRAME, LATE, PATIENCE, ConnectionState, Stage
from tocsin.client.core.publications import Publications
from tocsin.client.core.session import Role
from tocsin.client.core.subscriptions import Subscriptions
from tocsin.client.notification import Status
from tocsin.errors import Conflict, ConnectionLost, TocsinError, Unauthorized, Unreachable, UserError
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.backoff import Backoff

#: Seconds for a move, from the broker's word until everything is live on the other one.
MOVE = 30.0
#: Seconds for the last answers of a broker that the client has moved away from.
LINGER = 10.0
#: Seconds between two acks.
ACK_EVERY = 1.0
#: Positions in one ack; the protocol takes no more.
MOST_ACKED = 10_000
#: Letters of a reason; the protocol takes no more.
MOST_REASON = 256
#: Brokers of a coordinator that are tried before a client that is not patient gives up.
TRIES = 3
#: After these it is of no use to try the same broker again first.
ELSEWHERE = (close_codes.MIGRATED.code, close_codes.TRY_LATER.code)

SHOWN = {Stage.READY: "connected", Stage.WAITING: "waiting", Stage.STOPPED: "closed"}
_LETTERS = ascii_letters + digits + "-_"


def new_subscriber(random: Random) -> str:
    return "".join(random.choices(_LETTERS, k=22))


class ClientState:
    """``patient``: go on trying even if no broker has ever answered. ``login``: a user and a password are known.

    ``coordinator``: there is one, and it is asked where to go.
    """

    def __init__(
        self,
        urls: Sequence[str],
        random: Random,
        *,
        token: str | None = None,
        login: bool = False,
        agent: str = "",
        patient: bool = False,
        subscriber: str | None = None,
        coordinator: bool = False,
    ) -> None:
        self.subscriber = new_subscriber(random) if subscriber is None else subscriber
        self.places = Candidates(urls, asks=coordinator)
        self.token = token
        self.current: ConnectionState | None = None
        self.joining: ConnectionState | None = None
        self.leaving: ConnectionState | None = None
        self.welcome: wire.Welcome | None = None
        self.connects = 0
        self.moves = 0
        self.problem = ""
        self._login, self._agent, self._patient, self._coordinator = login, agent, patient, coordinator
        self._backoff = Backoff(random)
        self._stage = Stage.IDLE  # while there is no connection
        self._same = False  # the same place is tried again, whatever the coordinator would say
        self._returning = False  # and is where it was before the connection broke
        self._fresh = False  # the token was got since the last welcome
        self._now = 0.0
        self._asked_at = 0.0
        self._acked_at = float("-inf")
        self._wake: float | None = None
        self._timer: float | None = None
        self._out: list[ev.Instruction] = []
        self._ids = count(1)
        self._numbers = count(1)
        self._questions = 0
        self.subscriptions = Subscriptions(self._do, Backoff(random))
        self.publications = Publications(self._do, self._ids)
        self._events: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.Open: self._opened,
            ev.Connected: self._connected,
            ev.Disconnected: self._disconnected,
            ev.Received: self._received,
            ev.LoggedIn: self._logged_in,
            ev.LoginFailed: self._login_failed,
            ev.Placed: self._placed,
            ev.PlacementFailed: self._not_placed,
            ev.WantSubscribe: self._want_subscribe,
            ev.WantUnsubscribe: lambda event: self.subscriptions.leave(event, self.token is not None),
            ev.WantPublish: self._want_publish,
            ev.Withdraw: lambda event: self.publications.withdraw(event.request, self.links),
            ev.Consumed: self.subscriptions.consumed,
            ev.WantClose: self._want_close,
            ev.Timer: self._timed,
        }
        self._answers: dict[type[Any], Callable[[ConnectionState, Any], None]] = {
            wire.Welcome: self._welcomed,
            wire.Subscribed: lambda link, message: link.session.subscribed(message),
            wire.Unsubscribed: lambda link, message: link.session.unsubscribed(message.id),
            wire.Published: lambda link, message: self.publications.published(message, link, self._outlet),
            wire.Error: self._refused,
            wire.Notify: lambda link, message: link.session.notify(message),
            wire.Live: lambda link, message: link.session.live(message),
            wire.Lagging: lambda link, message: link.session.lagging(message),
            wire.Gap: lambda link, message: link.session.gap(message),
            wire.Ended: lambda link, message: link.session.ended(message),
            wire.Migrate: self._told_to_move,
            wire.Ping: self._pinged,
            wire.Pong: lambda link, message: None,
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
    def links(self) -> list[ConnectionState]:
        return [link for link in (self.current, self.joining, self.leaving) if link is not None]

    @property
    def url(self) -> str:
        return self.places.here.url

    @property
    def status(self) -> Status:
        entries = self.subscriptions.entries.values()
        here = self.welcome if self.stage is Stage.READY else None
        return Status(
            state=SHOWN.get(self.stage, "connecting"),
            url=self.url,
            broker=here.broker if here else None,
            user=here.user if here else None,
            subscriptions=len(entries),
            pending=sum(entry.pending for entry in entries),
            connects=self.connects,
            moves=self.moves,
            duplicates=self.subscriptions.duplicates,
            gaps=self.subscriptions.gaps,
            problem=self.problem,
        )

    def frame_bytes(self, connection: int) -> int:
        """The largest frame that this connection takes at the moment."""
        return next((link.frame_bytes for link in self.links if link.number == connection), CAUTIOUS_FRAME)

    @property
    def _outlet(self) -> ConnectionState | None:
        """Where new requests go."""
        return self.current if self.current is not None and self.current.ready else None

    def _do(self, instruction: ev.Instruction) -> None:
        self._out.append(instruction)

    def _flush(self) -> None:
        """What one event makes the client say goes into one frame of each connection."""
        for link in self.links:
            if link.said:
                self._do(ev.Send(link.number, link.said))
                link.said = []

    # -- finding a broker ----------------------------------------------------------------------------------------------

    def _opened(self, event: ev.Open) -> None:
        if self.stage is Stage.IDLE:
            self._try()

    def _try(self) -> None:
        self._wake = None
        self._asked_at = self._now
        if self._coordinator and not self._same:
            self._stage = Stage.PLACING
            self._questions += 1
            self._do(ev.Ask(self._questions, list(self.places.failed)))
        else:
            self._go()

    def _go(self) -> None:
        if self._login and self.token is None:
            self._stage = Stage.LOGIN
            self._do(ev.Login(self.url))
        else:
            self._same = False
            self.current = self._link(self.places.spend(), Role.CURRENT)

    def _link(self, place: Candidate, role: Role) -> ConnectionState:
        link = ConnectionState(next(self._numbers), place, self.subscriptions, self._ids, role, self._now)
        self._do(ev.Connect(link.number, place.url))
        return link

    def _placed(self, event: ev.Placed) -> None:
        if self.stage is Stage.PLACING and event.request == self._questions:
            self.places.settle(Candidate(event.url, event.broker, event.ticket))
            self._go()

    def _not_placed(self, event: ev.PlacementFailed) -> None:
        """Without a coordinator the client goes on with the brokers it knows."""
        if self.stage is not Stage.PLACING or event.request != self._questions:
            return
        self.problem = event.error.message
        self.places.failed.clear()
        if self.places.urls:
            self.places.turn()
            self._go()
        elif isinstance(event.error, UserError) or not (self.connects or self._patient):
            self._stop(event.error)
        else:
            self._try_later(event.error.message)

    def _logged_in(self, event: ev.LoggedIn) -> None:
        if self.stage is Stage.LOGIN:
            self.token, self._fresh = event.token, True
            self._go()

    def _login_failed(self, event: ev.LoginFailed) -> None:
        if self.stage is not Stage.LOGIN:
            return
        self._same = False
        if isinstance(event.error, UserError):
            self._stop(event.error)
        else:
            self._try_later(event.error.message)

    # -- connections ---------------------------------------------------------------------------------------------------

    def _find(self, connection: int) -> ConnectionState | None:
        return next((link for link in self.links if link.number == connection), None)

    def _connected(self, event: ev.Connected) -> None:
        link = self._find(event.connection)
        if link is None or link.stage is not Stage.CONNECTING:
            return
        link.stage = Stage.GREETING
        link.heard = self._now
        link.say(wire.Hello(next(self._ids), self.token, self._agent, self.subscriber, link.place.ticket))
        self.subscriptions.begin(link.session)

    def _welcomed(self, link: ConnectionState, message: wire.Welcome) -> None:
        if link.stage is not Stage.GREETING:
            return
        link.stage = Stage.READY
        link.welcome = message
        link.ready_at = self._now
        link.session.broker = message.broker
        if link is self.current:
            self._arrived(link, message)

    def _arrived(self, link: ConnectionState, message: wire.Welcome) -> None:
        self.welcome = message
        self.problem = ""
        self.connects += 1
        self._fresh = False
        self.places.welcomed(message.broker)
        if self.connects == 1:
            self._do(ev.Opened())
        self.publications.start(link)

    def _disconnected(self, event: ev.Disconnected) -> None:
        link = self._find(event.connection)
        if link is not None:
            self._lost(link, event.code, event.reason)

    def _drop(self, link: ConnectionState, code: int | None = None) -> None:
        self._do(ev.Close(link.number, code if link.online else None))

    def _lost(self, link: ConnectionState, code: int | None, reason: str) -> None:
        known = close_codes.CLOSES.get(code or 0)
        problem = reason or (known.meaning if known else "the connection broke")
        if link is self.joining:
            self.joining = None
            self._stay(link, problem)
        elif link is self.leaving:
            self.leaving = None
            self._forget(link)
        elif self.joining is not None and self.joining.ready:
            self._take_over(self.joining)
            self.leaving = None
            self._forget(link)
        else:
            if self.joining is not None:
                self._drop(self.joining, close_codes.NORMAL.code)
                self.subscriptions.lost(self.joining.session, kept=False)
                self.joining = None
            self.current = None
            self._forget(link)
            self._come_back(link, code, problem, reason)

    def _forget(self, link: ConnectionState) -> None:
        """No more answers come from there."""
        self.subscriptions.lost(link.session, kept=self.token is not None)
        self.publications.lost(link)
        if self._outlet is not None:
            self.publications.start(self._outlet)

    def _come_back(self, link: ConnectionState, code: int | None, problem: str, reason: str) -> None:
        self._stage = Stage.WAITING
        if link.ready and self._now - link.ready_at > self._backoff.ceiling(max(1, len(self.places.urls))):
            self._backoff.reset()  # it lasted longer than the wait for it
        if code == close_codes.UNAUTHORIZED.code and self._login and not self._fresh:
            self.token = None
            self._same = True
            self._try()
        elif code == close_codes.BAD_TICKET.code and link.place.ticket is not None:
            self._same = True
            self._try()
        elif not close_codes.reconnect(code):
            self._stop(self._ended_by(code, reason))
        else:
            wait, returning = None, self._returning
            if link.welcome is not None and code is None and not self._backoff.failures:
                wait = self._backoff.scattered(link.welcome.scatter)  # all its other clients come back now too
            elif returning and not link.ready and self._backoff.failures == 1:
                wait = 0.0  # it has waited for its turn, and where it was is nobody any more
            self._same = link.ready and (self._coordinator or self.places.stay) and code not in ELSEWHERE
            self._returning = self._same
            self._try_later(problem, wait)

    def _try_later(self, problem: str, wait: float | None = None) -> None:
        """``wait`` is that of the failures so far, if it is not given."""
        self.problem = problem
        places = max(1, len(self.places.urls))
        if wait is None:
            wait = self._backoff.next(places)
        most = max(TRIES, places) if self._coordinator else places
        if not (self.connects or self._patient) and self._backoff.failures >= most:
            where = " or ".join(self.places.urls)
            self._stop(
                Unreachable(
                    f"no broker answers at {where}: {problem}", hint="start one with `tocsin up` or `tocsin broker`"
                )
            )
            return
        if self._coordinator and not self._same:
            self.places.fail()
        elif not self._same:
            self.places.turn()
        self._stage = Stage.WAITING
        self._wake = self._now + wait

    def _ended_by(self, code: int | None, reason: str) -> TocsinError:
        known = close_codes.CLOSES.get(code or 0)
        text = f"the broker at {self.url} ended the connection, {code}" + (f" {known.name}" if known else "")
        kind = Unauthorized if code == close_codes.UNAUTHORIZED.code else ConnectionLost
        return kind(f"{text}: {reason}" if reason else text, hint=known.meaning if known else "", close=code)

    def _stop(self, error: TocsinError | None) -> None:
        if self.stage is Stage.STOPPED:
            return
        links = self.links
        for link in links:
            self._drop(link, close_codes.NORMAL.code)
        self.current = self.joining = self.leaving = None
        self._stage = Stage.STOPPED
        self._wake = None
        if error is not None:
            self.problem = error.message
        self.subscriptions.stop(error)
        for link in links:
            self.publications.lost(link)
        self.publications.stop(error or ConnectionLost("the client was closed before the records were sent"))
        self._do(ev.Stopped(error))

    def _want_close(self, event: ev.WantClose) -> None:
        if self.token is not None:
            self._ack()
        self._flush()
        self._stop(None)

    # -- moving --------------------------------------------------------------------------------------------------------

    def _told_to_move(self, link: ConnectionState, message: wire.Migrate) -> None:
        if self.joining is not None and self.joining.place.ticket == message.ticket:
            return
        if why := self._why_not(link, message):
            link.say(wire.MigrationFailed(message.ticket, why))
            return
        if self.joining is not None:
            self._give_up("there is a newer move")
        self.joining = self._link(Candidate(message.url, message.broker, message.ticket), Role.JOINING)
        self.joining.until = self._now + MOVE

    def _why_not(self, link: ConnectionState, message: wire.Migrate) -> str:
        if link is not self.current:
            return "the client is not here"
        if self.leaving is not None:
            return "the client has not left the broker before"
        if link.welcome is not None and message.broker == link.welcome.broker:
            return "the client is there already"
        if link.place.url.startswith(("https:", "wss:")) and not message.url.startswith(("https:", "wss:")):
            return "the client does not go from an encrypted connection to an open one"
        return ""

    def _give_up(self, why: str) -> None:
        """Everything stays as it is."""
        assert self.joining is not None
        link, self.joining = self.joining, None
        self._drop(link, close_codes.NORMAL.code)
        self._stay(link, why)

    def _stay(self, link: ConnectionState, why: str) -> None:
        self.subscriptions.lost(link.session, kept=False)
        if self.current is not None and self.current.online and link.place.ticket is not None:
            self.current.say(wire.MigrationFailed(link.place.ticket, why[:MOST_REASON]))

    def _take_over(self, link: ConnectionState) -> None:
        old = self.current
        assert old is not None and link.welcome is not None
        self.current, self.joining, self.leaving = link, None, old
        old.session.role = Role.LEAVING
        old.until, link.until = self._now + LINGER, None
        self.places.settle(Candidate(link.place.url, link.place.broker))
        self._backoff.reset()
        link.session.current()
        self.moves += 1
        self._arrived(link, link.welcome)

    def _settle_move(self) -> None:
        """Changes places when it is time, and lets the old connection go when nobody needs it."""
        link = self.joining
        if link is not None and link.session.trouble:
            self._give_up(link.session.trouble)
        # An application that has enough to do is not kept waiting by what it does not read.
        elif link is not None and link.ready and link.session.complete(live=not self.subscriptions.full):
            self._take_over(link)
        if self.leaving is not None and not self.leaving.busy:
            self._leave()

    def _leave(self) -> None:
        assert self.leaving is not None
        self._flush()
        link, self.leaving = self.leaving, None
        self._drop(link, close_codes.NORMAL.code)
        self._forget(link)

    # -- the application -----------------------------------------------------------------------------------------------

    def _want_subscribe(self, event: ev.WantSubscribe) -> None:
        if self.stage is Stage.STOPPED:
            self._do(ev.Ended(event.handle, self._closed()))
        else:
            self.subscriptions.want(event)

    def _want_publish(self, event: ev.WantPublish) -> None:
        if self.stage is Stage.STOPPED:
            self._do(ev.Reject(event.request, self._closed()))
        else:
            self.publications.want(event, self._outlet)

    def _closed(self) -> TocsinError:
        return Conflict("this client is closed" + (f": {self.problem}" if self.problem else ""))

    # -- the broker ----------------------------------------------------------------------------------------------------

    def _received(self, event: ev.Received) -> None:
        link = self._find(event.connection)
        if link is None or not link.online:
            return
        link.heard = self._now
        for message in event.messages:
            self._answers[type(message)](link, message)
            if link is self.joining and link.session.trouble:
                return  # what follows has a hole before it

    def _refused(self, link: ConnectionState, message: wire.Error) -> None:
        if message.id is not None and link.session.refused(message, self._now):
            return
        if message.id is not None and self.publications.refused(message, link):
            return
        self.problem = message.message

    def _pinged(self, link: ConnectionState, message: wire.Ping) -> None:
        link.session.ping(message)
        link.say(wire.Pong())

    def _ack(self) -> None:
        self._acked_at = self._now
        self.subscriptions.changed = False
        for link in self.links:
            if link.online:
                positions = iter(link.session.acks().items())
                while part := dict(islice(positions, MOST_ACKED)):
                    link.say(wire.Ack(part))

    # -- time ----------------------------------------------------------------------------------------------------------

    def _timed(self, event: ev.Timer) -> None:
        slept = self._timer is not None and self._now - self._timer > LATE
        self._timer = None
        for link in self.links if slept else ():
            link.excuse(self._now)
        if self._wake is not None and self._now >= self._wake:
            self._try()
        elif self.stage is Stage.PLACING and self._now >= self._asked_at + PATIENCE:
            self._not_placed(ev.PlacementFailed(self._questions, Unreachable("the coordinator does not answer")))
        for link in self.links:
            if link in self.links:  # the one before it may have taken it along
                self._look_after(link)

    def _look_after(self, link: ConnectionState) -> None:
        deadline = link.deadline
        if deadline is not None and self._now >= deadline:
            self._do(ev.Close(link.number))
            self._lost(link, None, f"nothing was heard from {link.place.url} for too long")
        elif link.until is not None and self._now >= link.until:
            if link is self.joining:
                self._give_up("not everything was live in time")
            else:
                self._leave()
        else:
            if link.beat_at is not None and self._now >= link.beat_at:
                # Nobody reads the broker's pings at the moment, and it must not take that for death.
                link.beat_at = None
                link.say(wire.Pong())
            link.session.timer(self._now)

    def _settle(self) -> None:
        """After each event: moves and acks that are due, one frame for all that is to be said, reading, the timer."""
        self._settle_move()
        ack_at = None
        if self.token is not None and self.stage is Stage.READY and self.subscriptions.changed:
            if self._now >= self._acked_at + ACK_EVERY:
                self._ack()
            else:
                ack_at = self._acked_at + ACK_EVERY
        self._flush()
        times = [self._wake, ack_at]
        if self.stage is Stage.PLACING:
            times.append(self._asked_at + PATIENCE)
        for link in self.links:
            self._pause(link)
            times += [link.deadline, link.until, link.session.retry_at, link.beat_at]
        due = min((at for at in times if at is not None), default=None)
        if due is not None and (self._timer is None or due < self._timer):
            self._timer = due
            self._do(ev.SetTimer(due))

    def _pause(self, link: ConnectionState) -> None:
        """Answers stand behind notifications in the stream: whoever waits for one has to read on."""
        pause = bool(self.subscriptions.full) and not link.busy and link.ready
        if pause and link.beat_at is None and link.heartbeat > 0:
            link.beat_at = self._now + link.heartbeat
        if not pause:
            link.beat_at = None
        if pause != link.paused:
            link.paused = pause
            link.heard = self._now
            self._do(ev.Pause(link.number) if pause else ev.Resume(link.number))
