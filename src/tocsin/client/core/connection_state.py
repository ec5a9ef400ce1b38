"""One connection of a client: its stage, its timeouts and its unanswered requests. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from tocsin.client.core.broker_candidates import Candidate, is_encrypted
from tocsin.client.core.publications import Publication
from tocsin.client.core.session import Role, Session
from tocsin.client.core.subscriptions import Subscriptions
from tocsin.config import LEAST_FRAME
from tocsin.errors import ConnectionLost, TocsinError, Unauthorized
from tocsin.wire import close_codes
from tocsin.wire import messages as wire

#: Seconds for making a connection, and again for the welcome.
TIMEOUT = 10.0
#: Heartbeats without any message after which the client takes the connection for dead.
MISSED_HEARTBEATS = 3
#: Seconds by which a timer may be late. Beyond them the client was asleep, and may have messages to read.
LATE = 1.0


class Stage(Enum):
    """Of a client; a connection is connecting, greeting or ready."""

    IDLE = "idle"
    PLACING = "placing"  # the coordinator chooses a broker
    LOGIN = "login"
    CONNECTING = "connecting"
    GREETING = "greeting"  # hello is sent
    READY = "ready"
    WAITING = "waiting"  # to reconnect
    STOPPED = "stopped"


class ConnectionState:
    """``until`` limits a migration: the time to complete it, or to wait for the last answers on the old connection."""

    def __init__(
        self,
        number: int,
        candidate: Candidate,
        subscriptions: Subscriptions,
        ids: Iterator[int],
        role: Role,
        now: float,
    ) -> None:
        self.number = number
        self.candidate = candidate
        self.stage = Stage.CONNECTING
        self.last_received = now
        self.ready_at = now
        self.until: float | None = None
        self.beat_at: float | None = None
        self.paused = False
        self.welcome: wire.Welcome | None = None
        self.publications: dict[int, Publication] = {}
        self.outbox: list[wire.Message] = []
        self.session = Session(subscriptions, self.send, ids, role)

    def send(self, message: wire.Message) -> None:
        self.outbox.append(message)

    @property
    def online(self) -> bool:
        return self.stage in (Stage.GREETING, Stage.READY)

    @property
    def ready(self) -> bool:
        return self.stage is Stage.READY

    @property
    def busy(self) -> bool:
        """Requests wait for an answer."""
        return bool(self.session.requests or self.publications)

    @property
    def frame_bytes(self) -> int:
        return self.welcome.frame_bytes if self.welcome is not None else LEAST_FRAME

    @property
    def heartbeat(self) -> float:
        return self.welcome.heartbeat if self.welcome is not None else 0.0

    def extend_deadline(self, now: float) -> None:
        """The client was asleep: the broker gets one more heartbeat."""
        allowed = (MISSED_HEARTBEATS - 1) * self.heartbeat if self.ready else TIMEOUT / 2
        self.last_received = max(self.last_received, now - allowed)

    @property
    def deadline(self) -> float | None:
        """When the client takes it for dead, if nothing arrives until then."""
        if not self.ready:
            return self.last_received + TIMEOUT
        if not self.paused and self.heartbeat > 0:
            return self.last_received + MISSED_HEARTBEATS * self.heartbeat
        return None

    def refuses(self, migration: wire.Migrate) -> str:
        """Why the client does not migrate from here to there."""
        if self.welcome is not None and migration.broker == self.welcome.broker:
            return "the client is already there"
        if is_encrypted(self.candidate.url) and not is_encrypted(migration.url):
            return "the client does not migrate from an encrypted connection to an unencrypted one"
        return ""


def ended_by(url: str, code: int | None, reason: str) -> TocsinError:
    """The error of a connection that the broker closed for good."""
    known = close_codes.CLOSES.get(code or 0)
    text = f"the broker at {url} ended the connection, {code}" + (f" {known.name}" if known else "")
    kind = Unauthorized if code == close_codes.UNAUTHORIZED.code else ConnectionLost
    return kind(f"{text}: {reason}" if reason else text, hint=known.meaning if known else "", close=code)
