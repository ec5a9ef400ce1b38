"""A request over REST as a peer of the state machine. Pure: what it waits for are effects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, Self

import msgspec
from msgspec import Struct

from tocsin.broker.core.events import Closed, Event, Opened, OpenedForUser, Peer, Received
from tocsin.effects import Effects
from tocsin.errors import Busy, TocsinError, Unauthorized, UserError
from tocsin.identity.grants import user as user_principal
from tocsin.identity.tokens import Claims
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.close_codes import Close
from tocsin.wire.remote_errors import remote_error

#: The errors of requests that the broker closes; all others were wrong themselves.
KINDS: dict[int, type[TocsinError]] = {
    close_codes.TRY_LATER.code: Busy,
    close_codes.UNAUTHORIZED.code: Unauthorized,
    close_codes.LOGGED_OUT.code: Unauthorized,
}


class Head(Struct):
    """What REST and SSE need of a message; its results pass unread."""

    type: str
    id: int | None = None
    subscription: int = 0
    execution: int = 0
    after: int = 0
    next: int = 0
    epoch: int = 0
    reason: str = ""


_head = msgspec.json.Decoder(Head)


class Host(Protocol):
    """Drives the state machine. ``at`` is the time of its clock at which a token that expires then is refused."""

    def handle(self, event: Event) -> None: ...

    def at(self, wall_clock: float) -> float: ...

    def now(self) -> float: ...


class UntilMessage(Struct, frozen=True, eq=False):
    """Answered by whether there is a message, or the end of the request, before ``until``: ``request.wake`` is called
    then."""

    request: RestRequest
    until: float | None


class RestRequest:
    """Without a user it sends a hello first, as an anonymous subscriber. ``peer``: what the state machine sends its
    messages to, if not to the request itself."""

    fd = -1

    def __init__(self, host: Host, user: Claims | None, address: str = "", peer: Peer = None) -> None:
        self.host, self.user, self.address = host, user, address
        self.peer = self if peer is None else peer
        self.closed: Close | None = None
        self.arrived: deque[bytes] = deque()
        self.wake: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        if self.user is not None:
            user, expires = self.user, self.host.at(self.user.expires)
            principal = user_principal(user.raw, user.roles)
            self.host.handle(OpenedForUser(self.peer, user.sid, principal, user.issued, expires))
        else:
            self.host.handle(Opened(self.peer, self.address))
            self.host.handle(Received(self.peer, [wire.Hello(0)]))
        return self

    def __exit__(self, *_: object) -> None:
        self.host.handle(Closed(self.peer))

    def send(self, messages: tuple[bytes, ...], frames: bytes) -> None:
        self.arrived += messages
        self.wake()

    def close(self, close: Close, reason: str = "") -> None:
        self.closed = close
        self.wake()

    def request(self, *messages: Any) -> None:
        self.host.handle(Received(self.peer, list(messages)))

    def next(self, until: float | None = None) -> Effects[tuple[Head, bytes] | None]:
        """The next message, as JSON; None if there is none before ``until``."""
        while not self.arrived:
            if self.closed is not None:
                raise KINDS.get(self.closed.code, UserError)(self.closed.meaning, code_of_close=self.closed.code)
            if not (yield UntilMessage(self, until)):
                return None
        text = self.arrived.popleft()
        return _head.decode(text), text

    def answer(self, id: int) -> Effects[Any]:
        """The answer to the request with this id; other messages before it are dropped."""
        while True:
            found = yield from self.next()
            assert found is not None
            if found[0].id == id:
                return decode(found[1])


def decode(text: bytes) -> Any:
    """The message; an error is raised."""
    (message,) = wire.decode_answers(text)
    if isinstance(message, wire.Error):
        raise remote_error(message.code, message.message, message.hint)
    return message
