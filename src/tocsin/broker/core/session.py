"""A subscriber's connection as the broker's state machine sees it."""

from __future__ import annotations

from msgspec import Struct

from tocsin.broker.core.events import Peer
from tocsin.wire.messages import FromClient

#: In ``Front.subscriptions``: everything is sent as it comes.
LIVE = -1


class Session(Struct, eq=False):
    """``subscriptions`` maps a BE subscription to LIVE, or to the last execution that was sent."""

    peer: Peer
    address: str
    heard: float
    subscriptions: dict[int, int]
    user: str | None = None
    subscriber: str = ""
    greeted: bool = False
    brief: bool = False  # one request over REST
    congested: bool = False
    behind: int = 0  # subscriptions that are not live
    unanswered: int = 0
    waiting: list[FromClient] | None = None  # came while its token is being looked up
