"""What a broker's state machine asks its driver to do. Instructions are carried out in their order."""

from __future__ import annotations

from msgspec import Raw, Struct

from tocsin.broker.core.events import Args, Peer
from tocsin.wire.close_codes import Close as CloseCode


class Send(Struct, frozen=True):
    """The same frame to all of them. The tuple is the same object as long as the audience is the same."""

    peers: tuple[Peer, ...]
    frame: bytes


class Close(Struct, frozen=True):
    peer: Peer
    close: CloseCode
    reason: str = ""


class Authenticate(Struct, frozen=True):
    """Whose token is it? Answered by Authenticated."""

    peer: Peer
    token: str


class Remember(Struct, frozen=True):
    """Keep this for the user, durably."""

    user: str
    subscription: int
    channel: str
    args: Args
    after: int


class Renumber(Struct, frozen=True):
    """What is kept for the user as ``former`` is ``subscription`` now. ``former`` got nothing behind ``until``; both
    count from the same beginning, and it is not further than ``through``."""

    user: str
    former: int
    subscription: int
    until: int
    through: int


class Forget(Struct, frozen=True):
    user: str
    subscription: int


class Acknowledge(Struct, frozen=True):
    user: str
    positions: dict[int, int]


class Want(Struct, frozen=True):
    """BE subscriptions; tried until the data cluster answers. Answered by Wanted."""

    channel: str
    args: list[Args]


class Unwant(Struct, frozen=True):
    """Answered by Unwanted."""

    channel: str
    subscriptions: list[int]


class Pull(Struct, frozen=True):
    """The results of an execution; tried until they are here or have expired. Answered by Pulled, in parts."""

    channel: str
    execution: int
    epoch: int = 0


class Fetch(Struct, frozen=True):
    """What a BE subscription got behind an execution. Answered by Fetched or FetchGap.

    ``begin``: and where its results begin. Answered by FetchEarly too.
    """

    job: int
    channel: str
    subscription: int
    after: int
    begin: bool = False


class Commit(Struct, frozen=True):
    """Records for a feed, all in one post. Answered by Published or PublishFailed."""

    feed: str
    records: list[Raw]


Kept = Remember | Renumber | Forget | Acknowledge
Instruction = Send | Close | Authenticate | Kept | Want | Unwant | Pull | Fetch | Commit
