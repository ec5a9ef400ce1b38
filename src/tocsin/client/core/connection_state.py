"""One connection of a client: how far it has come, when it was heard of, and what is under way on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from tocsin.client.core.broker_candidates import Candidate
from tocsin.client.core.publications import Publication
from tocsin.client.core.session import Role, Session
from tocsin.client.core.subscriptions import Subscriptions
from tocsin.wire import messages as wire

#: Seconds for making a connection, and again for the welcome.
PATIENCE = 10.0
#: Heartbeats without a word after which the other side is dead.
SILENCE = 3
#: Seconds by which a timer may be late; beyond them this side was asleep, and what was sent to it waits to be read.
LATE = 1.0
#: Largest frame until the broker has said how much it takes.
CAUTIOUS_FRAME = 64 * 1024


class Stage(Enum):
    """Of a client; the three in the middle are those of a connection."""

    IDLE = "idle"
    PLACING = "placing"  # the coordinator is asked
    LOGIN = "login"
    CONNECTING = "connecting"
    GREETING = "greeting"  # hello is sent
    READY = "ready"
    WAITING = "waiting"  # to try again
    STOPPED = "stopped"


class ConnectionState:
    """``until`` bounds a move: by then the new connection has taken over, or the old one has its last answers."""

    def __init__(
        self, number: int, place: Candidate, subscriptions: Subscriptions, ids: Iterator[int], role: Role, now: float
    ) -> None:
        self.number = number
        self.place = place
        self.stage = Stage.CONNECTING
        self.heard = now
        self.ready_at = now
        self.until: float | None = None
        self.beat_at: float | None = None
        self.paused = False
        self.welcome: wire.Welcome | None = None
        self.publications: dict[int, Publication] = {}
        self.said: list[wire.Message] = []
        self.session = Session(subscriptions, self.say, ids, role)

    def say(self, message: wire.Message) -> None:
        self.said.append(message)

    @property
    def online(self) -> bool:
        return self.stage in (Stage.GREETING, Stage.READY)

    @property
    def ready(self) -> bool:
        return self.stage is Stage.READY

    @property
    def busy(self) -> bool:
        """Somebody waits for an answer."""
        return bool(self.session.requests or self.publications)

    @property
    def frame_bytes(self) -> int:
        return self.welcome.frame_bytes if self.welcome is not None else CAUTIOUS_FRAME

    @property
    def heartbeat(self) -> float:
        return self.welcome.heartbeat if self.welcome is not None else 0.0

    def excuse(self, now: float) -> None:
        """This side slept: the other one gets a heartbeat more to be heard."""
        allowed = (SILENCE - 1) * self.heartbeat if self.ready else PATIENCE / 2
        self.heard = max(self.heard, now - allowed)

    @property
    def deadline(self) -> float | None:
        """When it is dead, if nothing is heard until then."""
        if not self.ready:
            return self.heard + PATIENCE
        if not self.paused and self.heartbeat > 0:
            return self.heard + SILENCE * self.heartbeat
        return None
