"""What the parts of the broker's state machine share: who is there, what they want, and the instructions so far."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from tocsin.broker.core.be_subscription import BESubscription, Channel, Key
from tocsin.broker.core.cache import Cache
from tocsin.broker.core.catchup import CatchUp
from tocsin.broker.core.events import Line, Peer, Problem
from tocsin.broker.core.instructions import Instruction, Send
from tocsin.broker.core.load import Counters
from tocsin.broker.core.publications import Publishing
from tocsin.broker.core.session import Session
from tocsin.config import BrokerConfig
from tocsin.wire import messages as wire
from tocsin.wire.frames import frame
from tocsin.wire.messages import Error, Message
from tocsin.wire.reports import FailedMigration

#: A notification that is to be booked: whose, of which execution, its frame, its results, receivers, and when.
Entry = tuple[BESubscription, int, bytes, Raw, int, float]


class Core:
    """The parts are built on one another, each a file: ``Core``, ``Behind``, ``Endings``, ``Executions``,
    ``Subscriptions``, ``Connections``, ``Users``, ``Moves``, and at last ``BrokerState``."""

    def __init__(self, config: BrokerConfig, refuses_ticket: Callable[[str, str], str | None]) -> None:
        self.config = config
        self._refuses_ticket = refuses_ticket
        self._strangers = 0
        self.limits = config.limits
        self.fronts: dict[Peer, Session] = {}
        self.backs: dict[int, BESubscription] = {}
        self.channels: dict[str, Channel] = {}
        self._counters = Counters()
        self._cache = Cache(self.limits.cache_bytes, self.limits.cache_results)
        self._ledger: list[Entry] = []
        self.catchup = CatchUp(config.fetches)
        self.publishing = Publishing(self.limits.publish_bytes)
        self._keys: dict[Key, BESubscription] = {}
        self._users: dict[str, Peer] = {}
        self._callers: dict[str, dict[Peer, None]] = {}  # of users, over REST
        self._held: dict[str, dict[int, BESubscription]] = {}
        self._greeting: dict[Peer, float] = {}
        self._addresses: dict[str, int] = {}
        self._idle: dict[BESubscription, float] = {}
        self._beat = 0
        self._beats: list[dict[Peer, Session]] = [{} for _ in range(max(1, round(config.heartbeat)))]
        self._subscribers: dict[str, Peer] = {}
        self._changed: dict[str, None] = {}
        self._outcomes: list[FailedMigration] = []
        self._out: list[Instruction] = []
        self._now = 0.0
        self._ticked: float | None = None
        self._awake = float("-inf")  # when it last found that it had slept

    @property
    def counters(self) -> Counters:
        self._enter()
        return self._counters

    @property
    def cache(self) -> Cache:
        self._enter()
        return self._cache

    def _enter(self) -> None:
        """Books what was delivered. By itself this costs as much as putting a notification together, since all of it
        is cold then; for many at once it is next to nothing. So it is put off until somebody looks."""
        if not self._ledger:
            return
        ledger, self._ledger = self._ledger, []
        counters, cache = self._counters, self._cache
        counters.notifications += len(ledger)
        for back, execution, data, results, audience, now in ledger:
            size = len(data)
            counters.bytes_in += len(memoryview(results))
            counters.deliveries += audience
            counters.bytes_out += size * audience
            back.lam.add(size, now)
            cache.add(back.recent, execution, data)

    def _channel(self, name: str) -> Channel:
        key = name.lower()
        channel = self.channels.get(key)
        if channel is None:
            channel = self.channels[key] = Channel(name)
        return channel

    def _tidy(self, channel: Channel) -> None:
        """Nothing is kept of a channel that nobody here has anything to do with."""
        if channel.unused:
            self.channels.pop(channel.name.lower(), None)

    def _touch(self, front: Session) -> None:
        """The coordinator is to hear of it."""
        if front.subscriber:
            self._changed[front.subscriber] = None

    def _send(self, front: Session, message: Message) -> None:
        data = frame(wire.encode(message))
        self.counters.bytes_out += len(data)
        self._out.append(Send((front.peer,), data))

    def _refuse(self, front: Session, id: int | None, problem: Problem) -> None:
        self.counters.refusals += 1
        self._send(front, Error(id, problem.code, problem.message, problem.hint))

    def _notify(self, peers: tuple[Peer, ...], data: bytes, count: int = 1) -> None:
        counters, audience = self.counters, len(peers)
        counters.deliveries += count * audience
        counters.bytes_out += len(data) * audience
        self._out.append(Send(peers, data))

    def _notify_lines(self, back: BESubscription, peers: tuple[Peer, ...], lines: list[Line]) -> None:
        """Results that were fetched, under the number that the subscription has now."""
        template, number = back.channel.template, back.id
        frames = [frame(template % (number, line.execution, line.rows, line.results)) for line in lines]
        self.counters.bytes_in += sum(len(memoryview(line.results)) for line in lines)
        self._notify(peers, b"".join(frames), len(frames))
