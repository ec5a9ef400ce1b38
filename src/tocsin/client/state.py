"""The client's side of ``tocsin.v1.json`` as a pure state machine: events in, instructions out.

It has no socket, no clock and no chance of its own: asyncio drives it in production, a simulator in experiments. It
keeps what a client must not forget while connections come and go: subscriptions with their cursors, goodbyes that
nobody has heard yet, records without an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import count, islice
from random import Random
from typing import Any

from tocsin.client import events as ev
from tocsin.client.backoff import Backoff
from tocsin.client.notification import Status
from tocsin.client.publications import Publications
from tocsin.client.subscriptions import Subscriptions
from tocsin.errors import Conflict, ConnectionLost, TocsinError, Unauthorized, Unreachable, UserError
from tocsin.wire import closes
from tocsin.wire import messages as wire

#: Seconds for making a connection, and again for the welcome.
PATIENCE = 10.0
#: Heartbeats without a word after which the other side is dead.
SILENCE = 3
#: Seconds between two acks.
ACK_EVERY = 1.0
#: Positions in one ack; the protocol takes no more.
MOST_ACKED = 10_000
#: Largest frame until the broker has said how much it takes.
CAUTIOUS_FRAME = 64 * 1024


class Stage(Enum):
    IDLE = "idle"
    LOGIN = "login"
    CONNECTING = "connecting"
    GREETING = "greeting"  # hello is sent
    READY = "ready"
    WAITING = "waiting"  # to try again
    STOPPED = "stopped"


SHOWN = {Stage.READY: "connected", Stage.WAITING: "waiting", Stage.STOPPED: "closed"}


class ClientState:
    """``patient``: go on trying even if no broker has ever answered. ``login``: a user and a password are known."""

    def __init__(
        self,
        urls: Sequence[str],
        random: Random,
        *,
        token: str | None = None,
        login: bool = False,
        agent: str = "",
        patient: bool = False,
    ) -> None:
        self.urls = list(urls)
        self.token = token
        self.stage = Stage.IDLE
        self.connection = 0
        self.welcome: wire.Welcome | None = None
        self.connects = 0
        self.problem = ""
        self._login, self._agent, self._patient = login, agent, patient
        self._backoff = Backoff(random)
        self._place = 0
        self._fresh = False  # the token was got since the last welcome
        self._paused = False
        self._now = 0.0
        self._heard = 0.0
        self._ready_at = 0.0
        self._acked_at = float("-inf")
        self._wake: float | None = None
        self._beat_at: float | None = None
        self._timer: float | None = None
        self._out: list[ev.Instruction] = []
        self._said: list[wire.Message] = []
        ids = count(1)
        self._ids = ids
        self.subscriptions = Subscriptions(self._do, self._say, ids, Backoff(random))
        self.publications = Publications(self._do, self._say, ids)
        self._events: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.Open: self._opened,
            ev.Connected: self._connected,
            ev.Disconnected: self._disconnected,
            ev.Received: self._received,
            ev.LoggedIn: self._logged_in,
            ev.LoginFailed: self._login_failed,
            ev.WantSubscribe: self._want_subscribe,
            ev.WantUnsubscribe: lambda event: self.subscriptions.leave(event, self._online, self.token is not None),
            ev.WantPublish: self._want_publish,
            ev.Withdraw: self.publications.withdraw,
            ev.Consumed: self.subscriptions.consumed,
            ev.WantClose: self._want_close,
            ev.Timer: self._timed,
        }
        self._answers: dict[type[Any], Callable[[Any], None]] = {
            wire.Welcome: self._welcomed,
            wire.Subscribed: self.subscriptions.subscribed,
            wire.Unsubscribed: lambda message: self.subscriptions.unsubscribed(message.id),
            wire.Published: lambda message: self.publications.published(message, self.frame_bytes),
            wire.Error: self._refused,
            wire.Notify: self.subscriptions.notify,
            wire.Live: self.subscriptions.live,
            wire.Lagging: self.subscriptions.lagging,
            wire.Gap: self.subscriptions.gap,
            wire.Ended: self.subscriptions.ended,
            wire.Ping: self._pinged,
            wire.Pong: lambda message: None,
        }

    def handle(self, event: ev.Event, now: float) -> list[ev.Instruction]:
        self._now = now
        self._events[type(event)](event)
        self._settle()
        out, self._out = self._out, []
        return out

    @property
    def url(self) -> str:
        return self.urls[self._place]

    @property
    def frame_bytes(self) -> int:
        return self.welcome.frame_bytes if self.welcome is not None and self.stage is Stage.READY else CAUTIOUS_FRAME

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
            duplicates=self.subscriptions.duplicates,
            gaps=self.subscriptions.gaps,
            problem=self.problem,
        )

    @property
    def _online(self) -> bool:
        return self.stage in (Stage.GREETING, Stage.READY)

    def _do(self, instruction: ev.Instruction) -> None:
        self._out.append(instruction)

    def _say(self, message: wire.Message) -> None:
        self._said.append(message)

    def _flush(self) -> None:
        """What one event makes the client say goes into one frame."""
        if self._said and self._online:
            self._do(ev.Send(self.connection, self._said))
        self._said = []

    # -- connections ---------------------------------------------------------------------------------------------------

    def _opened(self, event: ev.Open) -> None:
        if self.stage is Stage.IDLE:
            self._try()

    def _try(self) -> None:
        self._wake = None
        self._heard = self._now
        if self._login and self.token is None:
            self.stage = Stage.LOGIN
            self._do(ev.Login(self.url))
        else:
            self.stage = Stage.CONNECTING
            self.connection += 1
            self._do(ev.Connect(self.connection, self.url))

    def _logged_in(self, event: ev.LoggedIn) -> None:
        if self.stage is Stage.LOGIN:
            self.token, self._fresh = event.token, True
            self._try()

    def _login_failed(self, event: ev.LoginFailed) -> None:
        if self.stage is not Stage.LOGIN:
            return
        if isinstance(event.error, UserError):
            self._stop(event.error)
        else:
            self._try_later(event.error.message)

    def _connected(self, event: ev.Connected) -> None:
        if event.connection != self.connection or self.stage is not Stage.CONNECTING:
            return
        self.stage = Stage.GREETING
        self._heard = self._now
        self._say(wire.Hello(next(self._ids), self.token, self._agent))
        self.subscriptions.resume()

    def _welcomed(self, message: wire.Welcome) -> None:
        if self.stage is not Stage.GREETING:
            return
        self.stage = Stage.READY
        self.welcome = message
        self.problem = ""
        self.connects += 1
        self._fresh = False
        self._ready_at = self._now
        if self.connects == 1:
            self._do(ev.Opened())
        self.publications.start(self.frame_bytes)

    def _disconnected(self, event: ev.Disconnected) -> None:
        if event.connection == self.connection and self.stage in (Stage.CONNECTING, Stage.GREETING, Stage.READY):
            self._lost(event.code, event.reason)

    def _lost(self, code: int | None, reason: str) -> None:
        if self.stage is Stage.READY and self._now - self._ready_at > self._backoff.ceiling(len(self.urls)):
            self._backoff.reset()  # it lasted longer than the wait for it
        self.stage = Stage.WAITING
        self._said = []
        self._beat_at = None
        self.subscriptions.lost(kept=self.token is not None)
        self.publications.lost()
        if code == closes.UNAUTHORIZED.code and self._login and not self._fresh:
            self.token = None
            self._try()
        elif not closes.reconnect(code):
            self._stop(self._ended_by(code, reason))
        else:
            known = closes.CLOSES.get(code or 0)
            self._try_later(reason or (known.meaning if known else "the connection broke"))

    def _try_later(self, problem: str) -> None:
        self.problem = problem
        self._place = (self._place + 1) % len(self.urls)
        wait = self._backoff.next(len(self.urls))
        if not (self.connects or self._patient) and self._backoff.failures >= len(self.urls):
            where = " or ".join(self.urls)
            self._stop(Unreachable(f"no broker answers at {where}: {problem}", hint="start one with `tocsin broker`"))
            return
        self.stage = Stage.WAITING
        self._wake = self._now + wait

    def _ended_by(self, code: int | None, reason: str) -> TocsinError:
        known = closes.CLOSES.get(code or 0)
        text = f"the broker at {self.url} ended the connection, {code}" + (f" {known.name}" if known else "")
        kind = Unauthorized if code == closes.UNAUTHORIZED.code else ConnectionLost
        return kind(f"{text}: {reason}" if reason else text, hint=known.meaning if known else "", close=code)

    def _stop(self, error: TocsinError | None) -> None:
        if self.stage is Stage.STOPPED:
            return
        self.stage = Stage.STOPPED
        self._wake = self._beat_at = None
        if error is not None:
            self.problem = error.message
        self.subscriptions.stop(error)
        self.publications.stop(error or ConnectionLost("the client was closed before the records were sent"))
        self._do(ev.Stopped(error))

    def _want_close(self, event: ev.WantClose) -> None:
        if self._online and self.token is not None:
            self._ack()
        self._flush()
        if self._online or self.stage is Stage.CONNECTING:
            self._do(ev.Close(self.connection, closes.NORMAL.code))
        self._stop(None)

    # -- the application -----------------------------------------------------------------------------------------------

    def _want_subscribe(self, event: ev.WantSubscribe) -> None:
        if self.stage is Stage.STOPPED:
            self._do(ev.Ended(event.handle, self._closed()))
        else:
            self.subscriptions.want(event, self._online)

    def _want_publish(self, event: ev.WantPublish) -> None:
        if self.stage is Stage.STOPPED:
            self._do(ev.Reject(event.request, self._closed()))
        else:
            self.publications.want(event, self.frame_bytes if self.stage is Stage.READY else None)

    def _closed(self) -> TocsinError:
        return Conflict("this client is closed" + (f": {self.problem}" if self.problem else ""))

    # -- the broker ----------------------------------------------------------------------------------------------------

    def _received(self, event: ev.Received) -> None:
        if event.connection != self.connection or not self._online:
            return
        self._heard = self._now
        for message in event.messages:
            self._answers[type(message)](message)

    def _refused(self, message: wire.Error) -> None:
        if message.id is not None and self.subscriptions.refused(message, self._now):
            return
        if message.id is not None and self.publications.refused(message):
            return
        self.problem = message.message

    def _pinged(self, message: wire.Ping) -> None:
        self.subscriptions.ping(message)
        self._say(wire.Pong())

    def _ack(self) -> None:
        self._acked_at = self._now
        positions = iter(self.subscriptions.acks().items())
        while part := dict(islice(positions, MOST_ACKED)):
            self._say(wire.Ack(part))

    # -- time ----------------------------------------------------------------------------------------------------------

    def _timed(self, event: ev.Timer) -> None:
        self._timer = None
        deadline = self._deadline()
        if self._wake is not None and self._now >= self._wake:
            self._try()
        elif deadline is not None and self._now >= deadline:
            self._do(ev.Close(self.connection))
            self._lost(None, f"nothing was heard from {self.url} for too long")
        elif self._beat_at is not None and self._now >= self._beat_at:
            # Nobody reads the broker's pings at the moment, and it must not take that for death.
            self._beat_at = None
            self._say(wire.Pong())
        self.subscriptions.timer(self._now)

    def _deadline(self) -> float | None:
        if self.stage in (Stage.CONNECTING, Stage.GREETING):
            return self._heard + PATIENCE
        if self.stage is Stage.READY and not self._paused and self._heartbeat > 0:
            return self._heard + SILENCE * self._heartbeat
        return None

    @property
    def _heartbeat(self) -> float:
        return self.welcome.heartbeat if self.welcome is not None else 0.0

    def _settle(self) -> None:
        """After each event: acks that are due, one frame for all that is to be said, reading or not, the timer."""
        ack_at = None
        if self.token is not None and self.stage is Stage.READY and self.subscriptions.changed:
            if self._now >= self._acked_at + ACK_EVERY:
                self._ack()
            else:
                ack_at = self._acked_at + ACK_EVERY
        self._flush()
        self._pause()
        times = (self._wake, self._deadline(), ack_at, self.subscriptions.retry_at, self._beat_at)
        due = min((at for at in times if at is not None), default=None)
        if due is not None and (self._timer is None or due < self._timer):
            self._timer = due
            self._do(ev.SetTimer(due))

    def _pause(self) -> None:
        """Answers stand behind notifications in the stream: whoever waits for one has to read on."""
        waiting = self.subscriptions.requests or self.publications.requests
        pause = bool(self.subscriptions.full) and not waiting and self.stage is Stage.READY
        if pause and self._beat_at is None and self._heartbeat > 0:
            self._beat_at = self._now + self._heartbeat
        if not pause:
            self._beat_at = None
        if pause != self._paused:
            self._paused = pause
            self._heard = self._now
            self._do(ev.Pause() if pause else ev.Resume())
