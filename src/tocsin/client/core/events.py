"""What happens to a client, and what it wants done about it. Data only, so that a simulator can speak it too.

A connection has a number: what is said of one that the client has done with is of no interest any more.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tocsin.client.notification import Missed, Notification, Receipt
from tocsin.errors import TocsinError
from tocsin.wire.messages import FromBroker, Message

Args = list[Any] | dict[str, Any]


class Event(Struct, frozen=True):
    """Something happened."""


class Open(Event, frozen=True):
    """The application wants a connection."""


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
    token: str


class LoginFailed(Event, frozen=True):
    """A UserError is final, anything else may pass."""

    error: TocsinError


class Placed(Event, frozen=True):
    """The coordinator has answered ``Ask``: this broker has room."""

    request: int
    broker: str
    url: str
    ticket: str | None = None


class PlacementFailed(Event, frozen=True):
    request: int
    error: TocsinError


class WantSubscribe(Event, frozen=True):
    """``handle`` is chosen by the caller and names the subscription from here on.

    ``after`` and ``number`` are those of an earlier life: the last execution it had, and its BE subscription.
    """

    handle: int
    channel: str
    args: Args
    after: int | None = None
    number: int | None = None
    max_pending: int = 1_000
    epoch: int = 0


class WantUnsubscribe(Event, frozen=True):
    """``drain``: what is on its way is still wanted."""

    handle: int
    drain: bool = False


class WantPublish(Event, frozen=True):
    """``records`` are JSON. ``retry``: sending them twice does no harm."""

    request: int
    feed: str
    records: list[bytes]
    retry: bool = False


class Withdraw(Event, frozen=True):
    """Nobody waits for this publication any more: what was not sent yet stays here."""

    request: int


class Consumed(Event, frozen=True):
    """The application has dealt with the oldest notification that it had not dealt with."""

    handle: int
    execution: int


class WantClose(Event, frozen=True):
    """The application leaves."""


class Timer(Event, frozen=True):
    """The time of the last ``SetTimer`` has come."""


class Instruction(Struct, frozen=True):
    """Something is to be done."""


class Login(Instruction, frozen=True):
    """Get a token with user and password; answered by LoggedIn or LoginFailed."""

    url: str


class Ask(Instruction, frozen=True):
    """Ask the coordinator for a broker other than those to ``avoid``; answered by Placed or PlacementFailed."""

    request: int
    avoid: list[str]


class Connect(Instruction, frozen=True):
    """Answered by Connected or Disconnected."""

    connection: int
    url: str


class Send(Instruction, frozen=True):
    """In one frame, as far as the broker takes frames of that size."""

    connection: int
    messages: list[Message]


class Close(Instruction, frozen=True):
    """With a code: after all that is to be sent. Without: drop it, nobody is there. Needs no answer."""

    connection: int
    code: int | None = None


class Opened(Instruction, frozen=True):
    """A broker has welcomed the client for the first time."""


class Stopped(Instruction, frozen=True):
    """The end. Without an error if the application wanted it."""

    error: TocsinError | None = None


class Confirmed(Instruction, frozen=True):
    """The subscription is there: every execution from now on sees it."""

    handle: int


class Deliver(Instruction, frozen=True):
    handle: int
    item: Notification | Missed


class Ended(Instruction, frozen=True):
    """Nothing more is delivered to this subscription."""

    handle: int
    error: TocsinError | None = None


class Left(Instruction, frozen=True):
    """The broker has confirmed that the subscription is gone."""

    handle: int


class Resolve(Instruction, frozen=True):
    request: int
    receipt: Receipt


class Reject(Instruction, frozen=True):
    request: int
    error: TocsinError


class Pause(Instruction, frozen=True):
    """Read no further: the application has enough to do."""

    connection: int


class Resume(Instruction, frozen=True):
    """Read on."""

    connection: int


class SetTimer(Instruction, frozen=True):
    """Send ``Timer`` at this time; takes the place of any earlier one."""

    at: float
