"""What the broker's state machine asks its driver to do. Instructions are carried out in their order."""

from __future__ import annotations

from msgspec import Raw, Struct

from tocsin.balancing.host.messages import Message
from tocsin.broker.core.events import Args, Peer
from tocsin.identity.messages import Acknowledge, ChangeId, Forget, Remember
from tocsin.wire.close_codes import Close as CloseCode
from tocsin.wire.position import Position
from tocsin.wire.reports import MigrationOrder, PeerAddress

# -- to subscribers ----------------------------------------------------------------------------------------------------


class Send(Struct, frozen=True):
    """The same encoded messages to all of them. The tuple is the same object as long as the audience is the same."""

    peers: tuple[Peer, ...]
    messages: tuple[bytes, ...]


class Close(Struct, frozen=True):
    peer: Peer
    close: CloseCode
    reason: str = ""


class Failed(Struct, frozen=True):
    """The handler of a notification failed; its subscribers are replayed. The driver logs the error."""

    error: Exception


# -- to other brokers --------------------------------------------------------------------------------------------------


class SendToPeer(Struct, frozen=True):
    """Sent once. PeerUnreachable says that it could not be sent; nothing says that it arrived."""

    broker: str
    message: Message


class Departing(Struct, frozen=True):
    """For the log: a subscriber migrates, as the two brokers have agreed in this session."""

    order: MigrationOrder
    session: str


class SavePeers(Struct, frozen=True):
    """The other brokers are known after a restart too."""

    peers: dict[str, PeerAddress]


# -- to the store of users ---------------------------------------------------------------------------------------------


class Authenticate(Struct, frozen=True):
    """Whose token is it? Answered by Authenticated."""

    peer: Peer
    token: str


# -- to the data cluster -----------------------------------------------------------------------------------------------


class Command(Struct, frozen=True):
    """A request to the data cluster."""


class Subscribe(Command, frozen=True):
    """BE subscriptions. Answered by Subscribed."""

    channel: str
    args: list[Args]


class Unsubscribe(Command, frozen=True):
    """Answered by Unsubscribed."""

    channel: str
    subscriptions: list[int]


class Pull(Command, frozen=True):
    """The results of one execution for this broker. Answered by Pulled, in parts."""

    channel: str
    position: Position


class Fetch(Command, frozen=True):
    """The results of a BE subscription after a position. Answered by Fetched or FetchGap.

    ``find_begin``: and where its results begin. Answered by FetchEarly too. ``same_as``: nothing, unless it has or had
    the arguments of this BE subscription.
    """

    job: int
    channel: str
    subscription: int
    position: Position
    find_begin: bool = False
    same_as: int | None = None


class Publish(Command, frozen=True):
    """Records for a feed, all in one post; posts with the same ``key`` count once. Answered by Published or
    PublishFailed."""

    feed: str
    records: list[Raw]
    key: str = ""


__all__ = ["Acknowledge", "ChangeId", "Forget", "Remember"]  # those of the store of users

ToPeers = SendToPeer | Departing | SavePeers
Stored = Remember | ChangeId | Forget | Acknowledge
Upstream = Subscribe | Unsubscribe | Pull | Fetch | Publish
Instruction = Send | Close | Failed | ToPeers | Authenticate | Stored | Upstream
