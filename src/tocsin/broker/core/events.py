"""The events of the broker's state machine. A ``peer`` names a connection for the driver: it is only compared."""

from __future__ import annotations

from collections.abc import Hashable
from math import inf
from typing import Any, NamedTuple

from msgspec import Raw, Struct

from tocsin.balancing.host.messages import Message
from tocsin.config import BrokerBalancing
from tocsin.identity.grants import ANONYMOUS, GrantTable, Principal
from tocsin.wire.messages import DurableSubscription, FromClient
from tocsin.wire.position import START, Position
from tocsin.wire.reports import PeerAddress, ReportReply

Peer = Hashable
Args = list[Any] | dict[str, Any]


class Line(Struct, frozen=True, gc=False, rename={"rows": "count"}):
    """The results of one execution for one BE subscription; ``results`` is a JSON array that passes unread.

    ``gap``: why they are lost, if there were any. With ``before``, the execution before it that has results, these are
    only what is left of it.
    """

    subscription: int
    execution: int
    rows: int
    results: Raw
    gap: str = ""
    before: int | None = None


class FeedColumn(Struct, frozen=True):
    """A column of a feed's records, as the data cluster describes it."""

    name: str
    type: str
    nullable: bool = True


class Problem(Struct, frozen=True):
    """Why a request was refused."""

    code: str
    message: str
    hint: str = ""


class Event(Struct, frozen=True):
    """Something happened."""


# -- subscribers -------------------------------------------------------------------------------------------------------


class Opened(Event, frozen=True):
    peer: Peer
    address: str = ""


class OpenedForUser(Event, frozen=True):
    """A request of an authenticated user over REST. Several may be open beside the user's WebSocket. ``issued`` and
    ``expires`` are the times of its token."""

    peer: Peer
    user: str
    principal: Principal = ANONYMOUS
    issued: float = inf
    expires: float = inf


class Closed(Event, frozen=True):
    peer: Peer


class Received(Event, frozen=True):
    """Messages that have arrived together, in their order."""

    peer: Peer
    messages: list[FromClient]


class Unreadable(Event, frozen=True):
    """A frame that does not hold a message of the protocol; ``id`` is the request's where it could be read."""

    peer: Peer
    problem: str
    id: int | None = None


class Congested(Event, frozen=True):
    """The peer's outgoing buffer is over its bound."""

    peer: Peer


class Drained(Event, frozen=True):
    """The peer has read its outgoing buffer."""

    peer: Peer


# -- users -------------------------------------------------------------------------------------------------------------


class Authenticated(Event, frozen=True):
    """Answers Authenticate. ``user`` is the session of the token. Without one, ``problem`` says why the token is not
    valid; ``failed``: it could not be checked.

    ``issued`` is the wall-clock time of the token, ``expires`` the time of this clock at which it ends."""

    peer: Peer
    user: str | None
    durable: list[DurableSubscription] = []
    principal: Principal = ANONYMOUS
    failed: bool = False
    issued: float = inf
    expires: float = inf
    problem: str = "the token is not valid"


class Restored(Event, frozen=True):
    """A user's durable subscriptions, as the store has them."""

    user: str
    durable: list[DurableSubscription]


class UserEnded(Event, frozen=True):
    """Logged out, or expired: the durable subscriptions end."""

    user: str


class UserRevoked(Event, frozen=True):
    """The tokens of the user's session that were issued until ``before`` are void; what is durable stays."""

    user: str
    before: float


class UsersRestored(Event, frozen=True):
    """All sessions of before the start are restored: BE subscriptions without subscribers may expire."""


class Remembered(NamedTuple):
    """The outcome of one Remember or ChangeId: it is stored, or ``problem`` says why not."""

    user: str
    subscription: int
    problem: Problem | None = None


class Stored(Event, frozen=True):
    """Answers Remember and ChangeId, all those that were stored together."""

    outcomes: list[Remembered]


class UsersAway(Event, frozen=True):
    """Whether the store of users does not answer: until it does, nothing new can be made durable."""

    away: bool


class UserElsewhere(Event, frozen=True):
    """Another broker serves the user's durable subscriptions."""

    user: str


# -- other brokers -----------------------------------------------------------------------------------------------------


class PeersKnown(Event, frozen=True):
    """Addresses of other brokers."""

    peers: dict[str, PeerAddress]


class PeerMessage(Event, frozen=True):
    """The driver has verified who sent it."""

    sender: str
    message: Message


class PeerAnswered(Event, frozen=True):
    broker: str


class PeerUnreachable(Event, frozen=True):
    """Messages to this broker could not be sent."""

    broker: str


class DrainSelf(Event, frozen=True):
    """An operator of this machine has all subscribers migrate, or not any more."""

    undo: bool = False


class UseStrategy(Event, frozen=True):
    """An operator of this machine has it balance in another way from now on."""

    balancing: BrokerBalancing


# -- the data cluster --------------------------------------------------------------------------------------------------


class Notified(Event, frozen=True, gc=False, rename={"lines": "results"}):
    """An execution has results for this broker; a push channel sends them along. Flat, as in the JSON.

    ``records``: those of a feed's commit, which are matched here.
    """

    channel: str
    execution: int
    lines: list[Line] | None = None
    epoch: int = 0
    records: list[Raw] | None = None


class Publications(Event, frozen=True):
    """Records of a feed that is not stored: they are matched and delivered, and not kept."""

    feed: str
    records: list[Raw]


class Pulled(Event, frozen=True):
    """A part of the answer to Pull. A pull that broke off begins again from its start."""

    channel: str
    position: Position
    lines: list[Line]
    last: bool = True


class Subscribed(Event, frozen=True):
    """Answers Subscribe: an id or a problem for each, in order.

    The data cluster notifies this broker of every execution after ``position`` that has results for one of them.
    ``columns``: those of a feed's records, which their conditions are about.
    """

    channel: str
    outcomes: list[int | Problem]
    position: Position = START
    columns: tuple[FeedColumn, ...] = ()


class Unsubscribed(Event, frozen=True):
    """Answers Unsubscribe."""

    channel: str


class Recovered(Event, frozen=True):
    """BE subscriptions that the data cluster kept for this broker while it was down."""

    channel: str
    subscriptions: list[tuple[int, list[Any]]]
    position: Position
    columns: tuple[FeedColumn, ...] = ()


class Fetched(Event, frozen=True):
    """Answers Fetch. ``more``: there is more after the last line. ``begins_after`` is there if it was asked for: every
    later execution has seen the subscription."""

    job: int
    lines: list[Line]
    more: bool = False
    begins_after: Position = START


class FetchGap(Event, frozen=True):
    """Answers Fetch: results before ``first`` are not retained any more."""

    job: int
    first: Position


class FetchEarly(Event, frozen=True):
    """Answers Fetch: an execution is running that began before the subscription existed. Ask again."""

    job: int


class Dropped(Event, frozen=True):
    """The channel does not exist any more."""

    channel: str
    epoch: int = 0


class Missed(Event, frozen=True):
    """Notifications up to these positions may not have arrived: the data cluster had declared this broker gone, or the
    results expired before they were pulled."""

    positions: dict[str, Position]


class Published(Event, frozen=True):
    """Answers Publish: the records are durable, except those refused (by their place in the batch)."""

    feed: str
    refused: list[tuple[int, str, str]] = []


class PublishFailed(Event, frozen=True):
    """Answers Publish: none of the records was accepted."""

    feed: str
    problem: Problem


class GrantsChanged(Event, frozen=True):
    """Who may do what from now on; the first one ends the wait of requests that came before."""

    table: GrantTable


class Ordered(Event, frozen=True):
    """The coordinator's answer to a report."""

    orders: ReportReply


class Tick(Event, frozen=True):
    """Time has passed; about once a second."""


class Stopping(Event, frozen=True):
    """The broker ends: every client is sent away, to reconnect here or elsewhere."""
