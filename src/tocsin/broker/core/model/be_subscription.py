"""BE subscriptions and their channels, as the broker's state machine sees them.

Offsets here are executions of one epoch: that of the channel. A channel that is created again ends everything of the
epoch before, so that no two epochs meet in one BE subscription.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from msgspec import Struct, field

from tocsin.broker.core.events import Args, FeedColumn, Line, Peer
from tocsin.broker.core.model.cache import Recent
from tocsin.broker.core.model.matcher import Matcher
from tocsin.broker.core.model.rate import Rate
from tocsin.identity.grants import Policy, Principal
from tocsin.wire.messages import Gap, Subscribe, encode, notify_template, with_publication
from tocsin.wire.position import Position

Key = tuple[str, bytes]


class DurableRequest(NamedTuple):
    """Asks for a BE subscription on behalf of a user, who had it under this id. ``size``: bytes of its arguments."""

    user: str
    subscription: int
    execution: int
    previous_ids: dict[int, int]
    epoch: int = 0
    size: int = 0


class SessionRequest(NamedTuple):
    """Asks for it on a connection. ``permit``: the grants and the principal by which it is allowed."""

    peer: Peer
    request: Subscribe
    user: str | None = None
    size: int = 0
    permit: tuple[Policy | None, Principal | None] = (None, None)


class PreviousIds(NamedTuple):
    """The rest of the results under previous ``ids`` comes first, the oldest id first; only the answer to the latest
    job counts. ``released``: no broker may have held the subscription before the first of them."""

    ids: tuple[int, ...]
    job: int
    released: bool = False


class Audience(tuple[Peer, ...]):
    """Who gets the notifications of a BE subscription. Another one is made when a subscriber comes or goes.

    ``way`` is the driver's: how it gets there.
    """

    way: Any = None


class Channel(Struct, eq=False):
    """All executions up to ``delivered`` have been delivered. One pull at a time keeps them in order."""

    name: str
    template: bytes = b""  # of its notifications
    epoch: int = 0
    delivered: int = 0
    notified: int = 0  # the latest execution
    missed: int = 0  # notifications up to here may not have arrived
    queue: deque[tuple[int, list[Line] | None]] = field(default_factory=deque)  # notified, not delivered
    pulling: bool = False
    busy: bool = False  # a Subscribe or an Unsubscribe is in flight
    to_subscribe: dict[bytes, BESubscription] = {}
    subscribing: list[BESubscription] = []  # the Subscribe in flight
    to_unsubscribe: dict[int, BESubscription] = {}
    to_unsubscribe_next: dict[int, BESubscription] = {}  # of these, all that was to be subscribed before has been
    unsubscribing: list[int] = []  # the Unsubscribe in flight
    be_subscriptions: dict[int, BESubscription] = {}
    argument_bytes: int = 0  # of all BE subscriptions, in each spelling
    restoring: dict[str, int] = {}  # by user: durable subscriptions that the data cluster has not confirmed yet
    deferred: dict[BESubscription, None] = {}  # confirmed, with requests of users whose subscriptions are restored
    matcher: Matcher | None = None  # of a feed

    def __post_init__(self) -> None:
        self.spell(self.name)

    def spell(self, name: str) -> None:
        self.name = name
        self.template = notify_template(name)

    def restored(self, user: str) -> None:
        left = self.restoring.pop(user) - 1
        if left:
            self.restoring[user] = left

    def match_columns(self, columns: tuple[FeedColumn, ...]) -> None:
        """A feed has these; any other channel has none."""
        if columns and self.matcher is None:
            self.matcher = Matcher(columns)

    def add(self, subscription: BESubscription) -> None:
        """Raises TocsinError for a condition that cannot be matched here."""
        if self.matcher is not None:
            subscription.warnings = self.matcher.add(subscription.id, subscription.args)
        self.be_subscriptions[subscription.id] = subscription

    def remove(self, subscription: BESubscription) -> None:
        if self.be_subscriptions.pop(subscription.id, None) is not None and self.matcher is not None:
            self.matcher.remove(subscription.id)

    def keep(self, id: int) -> None:
        """It does not end."""
        self.to_unsubscribe.pop(id, None)
        self.to_unsubscribe_next.pop(id, None)

    def clear(self) -> None:
        """It was dropped. One that is created again under the name counts from the beginning."""
        self.deferred.clear()
        self.queue.clear()
        self.to_unsubscribe.clear()
        self.to_unsubscribe_next.clear()
        self.pulling = False
        self.notified = self.delivered = self.missed = self.epoch = 0
        self.matcher = None

    def position(self, execution: int) -> Position:
        return Position(self.epoch, execution)

    @property
    def unused(self) -> bool:
        waiting = self.to_subscribe or self.to_unsubscribe or self.to_unsubscribe_next
        return not (self.be_subscriptions or waiting or self.busy or self.queue)


class BESubscription(Struct, eq=False):
    """``id`` is 0 until the data cluster has confirmed it, when its channel was at ``confirmed_at``.

    Results up to ``live_after`` are fetched from the data cluster, later ones delivered as they come.
    """

    channel: Channel
    args: Args
    keys: list[Key]
    recent: Recent
    lam: Rate
    id: int = 0
    confirmed_at: int = 0
    live_after: int = 0
    last_delivered: int = 0
    requests: list[SessionRequest | DurableRequest] = []
    live: dict[Peer, None] = {}
    audience: Audience | None = None  # of ``live``, made when it is needed
    waiting: dict[Peer, int] = {}
    congested: dict[Peer, None] = {}
    previous: dict[Peer, PreviousIds] = {}
    users: dict[str, dict[int, int]] = {}  # its durable users; previous ids, each with its last execution
    fetching: bool = False
    warnings: tuple[str, ...] = ()  # about its condition
    reported: float = -1.0  # λ in bytes, as the coordinator knows it

    @property
    def size(self) -> int:
        """Bytes of the arguments."""
        return len(self.keys[0][1])

    @property
    def delivered(self) -> int:
        """Live subscribers have everything up to this execution."""
        return max(self.live_after, self.last_delivered, self.channel.delivered)

    def message(self, line: Line) -> bytes:
        """For its subscribers."""
        execution = line.execution
        if line.gap and line.before is None:
            return encode(Gap(self.id, execution - 1, execution + 1, line.gap))
        message = self.channel.template % (self.id, execution, line.rows, line.results)
        return with_publication(message, line.source) if line.source else message

    def messages(self, lines: list[Line]) -> tuple[bytes, ...]:
        """Of several executions. A gap is announced before the first of those that may be incomplete; each loss is."""
        out: list[bytes] = []
        announced = ""
        for line in lines:
            if line.before is not None and not (line.gap == announced == "compacted"):
                next = line.execution if line.rows else line.execution + 1
                out.append(encode(Gap(self.id, line.before, next, line.gap)))
            announced = "" if line.before is None else line.gap
            if line.rows or not announced:
                out.append(self.message(line))
        return tuple(out)

    def targets(self) -> Audience:
        if self.audience is None:
            self.audience = Audience(self.live)
        return self.audience

    @property
    def unused(self) -> bool:
        return not (self.live or self.waiting or self.congested or self.previous or self.users or self.requests)
