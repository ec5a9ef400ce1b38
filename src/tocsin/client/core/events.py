"""Events of a client and its instructions to the shell. Data only, so that the simulator can use them too.

Connections are numbered by the client; it ignores events of connections that it has given up.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tocsin.client.notification import Gap, Notification, Receipt
from tocsin.errors import TocsinError
from tocsin.wire.messages import FromBroker, Message
from tocsin.wire.position import Position

Args = list[Any] | dict[str, Any]


class Event(Struct, frozen=True):
    """Something happened."""


class OpenRequested(Event, frozen=True):
    """The application opens the client."""


class Connected(Event, frozen=True):
    connection: int


class Disconnected(Event, frozen=True):
    """It broke, was closed, or could not be made. ``code`` is that of the close frame, if there was one."""

    connection: int
    code: int | None = None
    reason: str = ""


class Received(Event, frozen=True):
    connection: int
    messages: list[FromBroker]


class LoggedIn(Event, frozen=True):
    """Answers Login and Refresh. ``seconds``: for which the token is valid, if that is known."""

    token: str
    seconds: float | None = None


class LoginFailed(Event, frozen=True):
    """A UserError is final; the client retries after any other error."""

    error: TocsinError


class Placed(Event, frozen=True):
    """The coordinator's answer to ``RequestBroker``."""

    request: int
    broker: str
    url: str
    ticket: str | None = None


class PlacementFailed(Event, frozen=True):
    request: int
    error: TocsinError


class RoundTripsMeasured(Event, frozen=True):
    """Answers ``MeasureRoundTrips``. ``distances`` are in milliseconds, by broker; empty if none could be measured."""

    request: int
    distances: dict[str, float]


class SubscribeRequested(Event, frozen=True):
    """``handle`` is chosen by the caller and names the subscription from here on.

    ``after`` and ``subscription`` resume an earlier one: its last position, and its BE subscription.
    """

    handle: int
    channel: str
    args: Args
    after: Position | None = None
    subscription: int | None = None
    max_pending: int = 1_000


class UnsubscribeRequested(Event, frozen=True):
    """``drain``: deliver what the broker sends before it confirms."""

    handle: int
    drain: bool = False


class PublishRequested(Event, frozen=True):
    """``records`` are JSON. ``retry``: sending them twice does no harm."""

    request: int
    feed: str
    records: list[bytes]
    retry: bool = False


class PublishCancelled(Event, frozen=True):
    """The application no longer waits for this publication: the client sends no more of it."""

    request: int


class Consumed(Event, frozen=True):
    """The application has finished with its oldest notification."""

    handle: int
    position: Position


class CloseRequested(Event, frozen=True):
    """The application closes the client."""


class Timer(Event, frozen=True):
    """The time of the last ``SetTimer`` has come."""


class Instruction(Struct, frozen=True):
    """Something for the shell to do."""


class Login(Instruction, frozen=True):
    """Get a token with user and password, of the broker at ``url`` or, '', of the coordinator: where there is one,
    brokers get no passwords. Answered by LoggedIn or LoginFailed."""

    url: str


class Refresh(Instruction, frozen=True):
    """Get the next token, while the present one is still valid. Answered by LoggedIn or LoginFailed."""

    url: str


class RequestBroker(Instruction, frozen=True):
    """Ask the coordinator for a broker that is not in ``avoid``. Answered by Placed or PlacementFailed.

    ``distances`` are round trips in milliseconds, by broker.
    """

    request: int
    avoid: list[str]
    distances: dict[str, float]


class MeasureRoundTrips(Instruction, frozen=True):
    """Measure round trips to the coordinator's brokers. Answered by RoundTripsMeasured."""

    request: int


class Connect(Instruction, frozen=True):
    """Answered by Connected or Disconnected."""

    connection: int
    url: str


class Send(Instruction, frozen=True):
    """In one frame, or in several where one would have more than ``limit`` bytes."""

    connection: int
    messages: list[Message]
    limit: int


class Close(Instruction, frozen=True):
    """With a code: after everything that is still to be sent. Without: at once. Needs no answer."""

    connection: int
    code: int | None = None


class Opened(Instruction, frozen=True):
    """A broker has welcomed the client for the first time."""


class Stopped(Instruction, frozen=True):
    """The client has ended; without an error if the application closed it."""

    error: TocsinError | None = None


class Confirmed(Instruction, frozen=True):
    """Every execution that starts from now on includes the subscription."""

    handle: int


class Deliver(Instruction, frozen=True):
    handle: int
    item: Notification | Gap


class Ended(Instruction, frozen=True):
    """Nothing more is delivered to this subscription."""

    handle: int
    error: TocsinError | None = None


class Unsubscribed(Instruction, frozen=True):
    """The broker has confirmed the unsubscription."""

    handle: int


class Resolve(Instruction, frozen=True):
    request: int
    receipt: Receipt


class Reject(Instruction, frozen=True):
    request: int
    error: TocsinError


class Read(Instruction, frozen=True):
    """Stop reading while the application has ``max_pending`` notifications to work on, or read again."""

    connection: int
    on: bool


class SetTimer(Instruction, frozen=True):
    """Send ``Timer`` at this time; replaces any earlier timer."""

    at: float
