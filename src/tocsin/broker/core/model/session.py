"""A subscriber's connection as the broker's state machine sees it."""

from __future__ import annotations

from math import inf

from msgspec import Struct

from tocsin.broker.core.events import Peer
from tocsin.identity.grants import ANONYMOUS, Principal
from tocsin.wire.messages import FromClient

#: In ``Session.subscriptions``: results are sent as they come.
LIVE = -1


class Session(Struct, eq=False):
    """``subscriptions`` maps a BE subscription to LIVE, or to the last execution that was sent. ``alone``: the one
    audience of what only this peer gets."""

    peer: Peer
    address: str
    last_received: float
    subscriptions: dict[int, int]
    user: str | None = None
    principal: Principal = ANONYMOUS
    issued: float = inf  # when its token was
    expires: float = inf
    subscriber: str = ""
    welcomed: bool = False
    rest: bool = False  # one request of a user over REST
    congested: bool = False
    not_live: int = 0  # subscriptions that are not live
    unanswered: int = 0
    argument_bytes: int = 0  # of all subscriptions, and of those that are not answered yet
    queued: list[FromClient] | None = None  # received while its token is being looked up
    queued_bytes: int = 0
    alternatives: dict[str, str] | None = None  # as the client knows them
    alone: tuple[Peer, ...] = ()

    def __post_init__(self) -> None:
        self.alone = (self.peer,)
