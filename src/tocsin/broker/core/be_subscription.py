"""BE subscriptions and the channels they are of, as the broker's state machine sees them."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from msgspec import Struct, field

from tocsin.broker.core.audience import Audience
from tocsin.broker.core.cache import Recent
from tocsin.broker.core.events import Args, Line, Peer
from tocsin.broker.core.rate import Rate
from tocsin.wire.messages import Subscribe, notify_template

Key = tuple[str, bytes]


class Holder(NamedTuple):
    """Asks for a BE subscription on behalf of a user who is away, who had it under this number."""

    user: str
    subscription: int
    after: int
    previous_ids: dict[int, int]


class Asker(NamedTuple):
    """Asks for it on a connection."""

    peer: Peer
    request: Subscribe


class Former(NamedTuple):
    """Gets the rest of what it had under other ``numbers`` first, the oldest first; only the answer to the latest job
    counts. ``between``: nobody may have had the subscription before the first of them."""

    numbers: tuple[int, ...]
    job: int
    between: bool = False


class Channel(Struct, eq=False):
    """``position``: all executions up to it have been delivered. One pull at a time keeps them in order."""

    name: str
    template: bytes = b""  # of its notifications
    epoch: int = 0
    position: int = 0
    told: deque[tuple[int, list[Line] | None]] = field(default_factory=deque)
    newest: int = 0
    lost: int = 0  # up to here, some may never have been told
    pulling: bool = False
    busy: bool = False  # a Want or an Unwant is under way
    wanted: dict[bytes, BESubscription] = {}
    asked: list[BESubscription] = []  # the Want under way
    unwanted: dict[int, BESubscription] = {}
    parting: dict[int, BESubscription] = {}  # unwanted, and everything wanted before has been asked for
    released: list[int] = []  # the Unwant under way
    backs: dict[int, BESubscription] = {}

    def __post_init__(self) -> None:
        self.spell(self.name)

    def spell(self, name: str) -> None:
        self.name = name
        self.template = notify_template(name)

    @property
    def unused(self) -> bool:
        return not (self.backs or self.wanted or self.unwanted or self.parting or self.busy or self.told)


class BESubscription(Struct, eq=False):
    """A BE subscription. ``id`` is 0 until the data cluster has confirmed it, when its channel was at ``born``.

    What executions up to ``start`` found for it is not delivered as it comes, but had from the data cluster.
    """

    channel: Channel
    args: Args
    keys: list[Key]
    recent: Recent
    lam: Rate
    id: int = 0
    born: int = 0
    start: int = 0
    last: int = 0
    asking: list[Asker | Holder] = []
    live: dict[Peer, None] = {}
    audience: Audience | None = None  # of ``live``, made when it is needed
    waiting: dict[Peer, int] = {}
    slow: dict[Peer, None] = {}
    former: dict[Peer, Former] = {}
    holders: dict[str, dict[int, int]] = {}  # users, and until where they had it under other numbers
    fetching: bool = False
    reported: float = -1.0  # λ in bytes, as the coordinator knows it

    @property
    def through(self) -> int:
        """Who is live has everything up to this execution."""
        return max(self.start, self.last, self.channel.position)

    def targets(self) -> Audience:
        if self.audience is None:
            self.audience = Audience(self.live)
        return self.audience

    @property
    def unused(self) -> bool:
        return not (self.live or self.waiting or self.slow or self.former or self.holders or self.asking)
