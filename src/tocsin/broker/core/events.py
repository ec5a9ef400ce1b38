"""What can happen to a broker. A ``peer`` is whatever the driver names a connection by: it is only compared."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from msgspec import Raw, Struct

from tocsin.wire.messages import DurableSubscription, FromClient
from tocsin.wire.reports import ReportReply

Peer = Hashable
Args = list[Any] | dict[str, Any]


class Line(Struct, frozen=True, gc=False, rename={"rows": "count"}):
    """The results of one execution for one BE subscription; ``results`` is a JSON array that nobody looks at."""

    subscription: int
    execution: int
    rows: int
    results: Raw


class Problem(Struct, frozen=True):
    """Why a request was refused."""

    code: str
    message: str
    hint: str = ""


# -- subscribers -------------------------------------------------------------------------------------------------------


class Opened(Struct, frozen=True):
    peer: Peer
    address: str = ""


class Assumed(Struct, frozen=True):
    """The driver vouches for a peer: a request of a user over REST. It has no place of its own among the devices."""

    peer: Peer
    user: str


class Closed(Struct, frozen=True):
    peer: Peer


class Received(Struct, frozen=True):
    """The messages of one frame."""

    peer: Peer
    messages: list[FromClient]


class Unreadable(Struct, frozen=True):
    """A frame that holds no message of the protocol; ``id`` is the request's where it could be told."""

    peer: Peer
    problem: str
    id: int | None = None


class Congested(Struct, frozen=True):
    """More is on its way to the peer than the bound allows."""

    peer: Peer


class Drained(Struct, frozen=True):
    """The peer has read what was on its way."""

    peer: Peer


# -- users -------------------------------------------------------------------------------------------------------------


class Authenticated(Struct, frozen=True):
    """Answers Authenticate; no ``user``: the token is not known."""

    peer: Peer
    user: str | None
    held: list[DurableSubscription] = []


class Restored(Struct, frozen=True):
    """What is kept for a user, from the broker's former life or from another process that shares the store."""

    user: str
    held: list[DurableSubscription]


class UserEnded(Struct, frozen=True):
    """Logged out, or expired: nothing is kept for the user any more."""

    user: str


class Elsewhere(Struct, frozen=True):
    """Another broker that shares the store keeps what is kept for the user, or nothing is kept any more."""

    user: str


# -- the data cluster --------------------------------------------------------------------------------------------------


class Told(Struct, frozen=True, gc=False, rename={"lines": "results"}):
    """There is an execution with results for this broker; a push channel sends them along.

    ``epoch``, here and below: which of the channels that had the name one after the other. 0 if that is not known.
    """

    channel: str
    execution: int
    lines: list[Line] | None = None
    epoch: int = 0


class Pulled(Struct, frozen=True):
    """A part of what Pull brings. A pull that broke off begins again from its start."""

    channel: str
    execution: int
    lines: list[Line]
    last: bool = True
    epoch: int = 0


class Wanted(Struct, frozen=True):
    """Answers Want: a number or a problem for each, in order.

    Every execution behind ``position`` that has something for one of them will be told to this broker.
    """

    channel: str
    outcomes: list[int | Problem]
    position: int = 0
    epoch: int = 0


class Unwanted(Struct, frozen=True):
    """Answers Unwant."""

    channel: str


class Inherited(Struct, frozen=True):
    """BE subscriptions that the data cluster still keeps for this broker from its former life."""

    channel: str
    subscriptions: list[tuple[int, list[Any]]]
    position: int
    epoch: int = 0


class Fetched(Struct, frozen=True):
    """Answers Fetch. ``more``: there is more behind the last line. ``begin`` is there if it was asked for: every
    execution behind it has seen the subscription."""

    job: int
    lines: list[Line]
    more: bool = False
    begin: int = 0


class FetchGap(Struct, frozen=True):
    """Answers Fetch: results before execution ``first`` are not kept any more."""

    job: int
    first: int


class FetchEarly(Struct, frozen=True):
    """Answers Fetch: an execution is under way that began before the subscription was there. Ask again."""

    job: int


class Dropped(Struct, frozen=True):
    """The channel does not exist any more."""

    channel: str
    epoch: int = 0


class Returned(Struct, frozen=True):
    """Results up to these executions may have passed by: the data cluster had given this broker up, or kept them no
    longer than it took to pull them."""

    positions: dict[str, int]
    epoch: int = 0


class Published(Struct, frozen=True):
    """Answers Commit: the records are durable, except those refused (by their place in the batch)."""

    feed: str
    refused: list[tuple[int, str, str]] = []


class PublishFailed(Struct, frozen=True):
    """Answers Commit: none of the records was taken."""

    feed: str
    problem: Problem


class Ordered(Struct, frozen=True):
    """The coordinator's answer to a report."""

    orders: ReportReply


class Tick(Struct, frozen=True):
    """Time has passed; about once a second."""


class Stopping(Struct, frozen=True):
    """The broker is to end: everybody is sent away, to come back or to go elsewhere."""


Event = (
    Opened
    | Assumed
    | Closed
    | Received
    | Unreadable
    | Congested
    | Drained
    | Authenticated
    | Restored
    | UserEnded
    | Elsewhere
    | Told
    | Pulled
    | Wanted
    | Unwanted
    | Inherited
    | Fetched
    | FetchGap
    | FetchEarly
    | Dropped
    | Returned
    | Published
    | PublishFailed
    | Ordered
    | Tick
    | Stopping
)
