"""A subscriber: the production state machine of the SDK, and an application that keeps what it receives."""

from __future__ import annotations

from collections import deque
from itertools import count
from random import Random
from typing import TYPE_CHECKING

import msgspec

from tocsin.client.core import events as ev
from tocsin.client.core.login import Tokens
from tocsin.client.core.state import ClientState
from tocsin.client.notification import Gap, Notification
from tocsin.errors import TocsinError, Unreachable
from tocsin.simulation.identity.account import Account
from tocsin.simulation.ledger import DROPPED, Interest
from tocsin.simulation.network.connection import Ended, Owner, Side, connect
from tocsin.simulation.network.network import Network
from tocsin.simulation.network.node import Node
from tocsin.simulation.nodes.coordinator import Refusal
from tocsin.simulation.nodes.publisher import Publisher
from tocsin.wire import messages as wire
from tocsin.wire.frames import TEXT, payloads, unmask
from tocsin.wire.position import Position
from tocsin.wire.reports import BrokerRequest, Placement

if TYPE_CHECKING:
    from tocsin.simulation.nodes.broker import BrokerNode
    from tocsin.simulation.nodes.coordinator import CoordinatorNode

#: Seconds for the coordinator's answer, and for the close frame of the other side.
PLACEMENT_TIMEOUT, CLOSE_TIMEOUT = 5.0, 2.0
#: Seconds after which an application subscribes again to a channel that was dropped.
RESUBSCRIBE = 1.0

_placement = msgspec.json.Decoder(Placement)


class ClientNode(Node, Owner):
    """``interests`` are the application's subscriptions, and durable; ``pace`` is its time for one notification."""

    def __init__(
        self,
        name: str,
        network: Network,
        rng: Random,
        brokers: dict[str, BrokerNode],
        coordinator: CoordinatorNode | None,
        urls: list[str],
    ) -> None:
        super().__init__(name, network)
        self.rng, self.brokers, self.coordinator, self.urls = rng, brokers, coordinator, urls
        self.subscriber = f"subscriber-{name}".ljust(wire.LEAST_SUBSCRIBER, "-")
        self.interests: dict[int, Interest] = {}
        self.pace = 0.0
        self.bandwidth = 1e6
        self.max_pending = 1_000
        self.masked = False
        self.stopped: TocsinError | None = None
        self.account: Account | None = None  # without it, it is anonymous
        self.publisher = Publisher(self, rng, 0.0)
        self.handles = count(1)
        self.sides: dict[int, Side] = {}
        self._turn = 0

    # -- life

    def boot(self) -> None:
        super().boot()
        self.sides = {}
        self.stopped = None
        self._items: deque[tuple[int, Notification | Gap]] = deque()
        self._working = False
        self._known: dict[int, int | None] = {}
        self.state = ClientState(
            self.urls,
            self.rng,
            wait_for_broker=True,
            subscriber=self.subscriber,
            coordinator=self.coordinator is not None,
            login=self.account is not None,
        )
        if self.account is not None:
            self.account.boot(self.interests.values())
        self.handle(ev.OpenRequested())
        if self.account is None or not self.account.forgetful:
            self._subscribe_all()
        self.publisher.boot()

    def die(self, *, silent: bool = False) -> None:
        """The application's position is durable; notifications that it has not consumed are not."""
        for handle, interest in self.interests.items():
            state = self.state.subscriptions.by_handle.get(handle)
            if state is not None and not interest.ended:
                interest.position, interest.id = state.consumed, state.id
        for handle, item in self._items:
            if isinstance(item, Gap):
                self._miss(handle, item)
        super().die(silent=silent)
        sides, self.sides = self.sides, {}
        for side in sides.values():
            side.abort()

    def usual(self, bandwidth: float) -> None:
        """From now on its connections have this bandwidth, and its application takes no time."""
        self.pace, self.bandwidth = 0.0, bandwidth
        for side in self.sides.values():
            side.other.out.bandwidth = bandwidth

    def subscribe(self, interest: Interest) -> None:
        self.interests[interest.handle] = interest
        if self.up and (self.account is None or not self.account.forgetful or self.state.connects):
            self._subscribe(interest)

    def _subscribe_all(self) -> None:
        for interest in list(self.interests.values()):
            if interest.wanted:
                self._subscribe(interest)

    def _restore(self, durable: list[wire.DurableSubscription]) -> None:
        """The application keeps nothing: the network says what it has subscribed to, and where it is."""
        assert self.account is not None
        for interest in self.interests.values():
            if interest.wanted and not interest.ended:
                found = self.account.find(interest, durable)
                if found is None:
                    interest.end()
                else:
                    interest.position, interest.id = Position(found.epoch, found.after), found.subscription
        self._subscribe_all()

    def _subscribe(self, it: Interest) -> None:
        if self.account is not None:
            self.account.requested.add((it.channel, it.kind))
        self.handle(ev.SubscribeRequested(it.handle, it.channel, [it.kind], it.position, it.id, self.max_pending))

    def unsubscribe(self, interest: Interest) -> None:
        interest.wanted = False
        if self.up:
            self.handle(ev.UnsubscribeRequested(interest.handle))

    # -- the state machine

    def handle(self, event: ev.Event) -> None:
        for it in self.state.handle(event, self.clock.now):
            match it:
                case ev.Deliver():
                    self._deliver(it.handle, it.item)
                case ev.Send():
                    self._send(it)
                case ev.SetTimer():
                    self._turn += 1
                    self.clock.at(it.at, self._timer, self._turn, self.life)
                case ev.Connect():
                    self._connect(it.connection, it.url)
                case ev.Close():
                    self._close(it.connection, it.code)
                case ev.RequestBroker():
                    self._request_broker(it)
                case ev.Read():
                    if it.connection in self.sides:
                        self.sides[it.connection].other.out.pause(not it.on)
                case ev.Confirmed():
                    self._confirmed(it.handle)
                case ev.Ended():
                    self._ended(it.handle, it.error)
                case ev.Resolve():
                    self.publisher.ended(it.request, it.receipt)
                case ev.Reject():
                    self.publisher.ended(it.request, it.error)
                case ev.Login() | ev.Refresh():
                    self._log_in()
                case ev.Opened():
                    if self.account is not None and self.account.forgetful and self.state.welcome is not None:
                        self._restore(self.state.welcome.subscriptions)
                case ev.Stopped():
                    self.stopped = it.error
                    if self.account is not None and it.error is not None:
                        self.later(self.rng.uniform(1.0, 3.0), self._come_back)
                    if self.trace:
                        self.trace.say(
                            self.name, f"stops: {it.error.message if it.error else 'closed by the application'}"
                        )
        if self._items and not self._working:
            self._work_on()

    def _log_in(self) -> None:
        assert self.account is not None
        life = self.life

        def answered(found: Tokens | None, error: Exception | None) -> None:
            if life != self.life:
                return
            if found is not None:
                self.handle(ev.LoggedIn(found.token, found.seconds))
            else:
                assert isinstance(error, TocsinError)
                self.handle(ev.LoginFailed(error))

        self.account.log_in(answered)

    def _come_back(self) -> None:
        """The person enters the password that counts now, or registers again."""
        if self.stopped is not None:
            self.die()
            self.boot()

    def _timer(self, turn: int, life: int) -> None:
        if life == self.life and turn == self._turn:
            self.take(self.handle, ev.Timer())

    # -- the application

    def _confirmed(self, handle: int) -> None:
        after, interest = self.state.subscriptions.by_handle[handle].execution, self.interests[handle]
        if self.trace:
            self.trace.say(self.name, f"{interest.channel}({interest.kind}) is confirmed, after {after}")
        id = self.state.subscriptions.by_handle[handle].id
        assert id is not None
        if self.account is not None:
            self.account.confirmed(interest, id)
        interest.confirm(self.clock.now, id, after)

    def _ended(self, handle: int, error: TocsinError | None) -> None:
        """The channel does not exist: the application subscribes again until it does."""
        interest = self.interests[handle]
        if error is not None and interest.wanted and self.stopped is None:
            if self.trace:
                self.trace.say(self.name, f"{interest.channel}({interest.kind}) has ended: {error.message}")
            interest.end()
            self.later(RESUBSCRIBE, self._resubscribe, interest)

    def _resubscribe(self, interest: Interest) -> None:
        if interest.wanted:
            del self.interests[interest.handle]
            interest.handle = next(self.handles)
            self.subscribe(interest)

    def _deliver(self, handle: int, item: Notification | Gap) -> None:
        if isinstance(item, Gap) and self.trace:
            self.trace.say(self.name, f"gap in {item.channel} after {item.after}, before {item.next}: {item.reason}")
        if isinstance(item, Gap) and item.reason != DROPPED:
            self._miss(handle, item)
        else:  # another channel of the name begins after the rest of the one before
            self._items.append((handle, item))

    def _miss(self, handle: int, item: Gap) -> None:
        if handle in self.interests:
            self.interests[handle].miss(self.clock.now, item, self._known.get(handle))

    def _work_on(self) -> None:
        self._working = True
        if self.pace:
            self.later(self.pace, self._consume)
        else:
            while self._items:
                self._consumed()
            self._working = False

    def _consume(self) -> None:
        if self._items:
            self._consumed()
        self._working = False
        if self._items:
            self._work_on()

    def _consumed(self) -> None:
        handle, item = self._items.popleft()
        if isinstance(item, Gap):
            self._miss(handle, item)
        elif handle in self.state.subscriptions.by_handle:
            self.interests[handle].receive(item)
            self.handle(ev.Consumed(handle, item.position))

    # -- the network

    def _request_broker(self, it: ev.RequestBroker) -> None:
        assert self.coordinator is not None
        body = msgspec.json.encode(BrokerRequest(self.subscriber, avoid=it.avoid))
        life = self.life

        def answered(value: bytes | None, error: Exception | None) -> None:
            if life != self.life:
                return
            if value is not None:
                found = _placement.decode(value)
                self.take(self.handle, ev.Placed(it.request, found.broker, found.url, found.ticket))
            else:
                why = error.why if isinstance(error, Refusal) else Unreachable("no coordinator answers")
                assert isinstance(why, TocsinError)
                self.take(self.handle, ev.PlacementFailed(it.request, why))

        self.network.request(self, self.coordinator, self.coordinator.place, body, PLACEMENT_TIMEOUT)(answered)

    def _connect(self, number: int, url: str) -> None:
        broker = self.brokers[url]
        side = self.sides[number] = Side(self, self, number)
        connect(side, broker, broker, self.bandwidth)
        if self.trace:
            self.trace.say(self.name, f"connects, {number}", broker.name)

    def _send(self, it: ev.Send) -> None:
        side = self.sides[it.connection]
        for text in wire.frames(it.messages, it.limit):
            if self.masked:
                data, cut = masked(text, self.rng), 0
                if len(data) > 2:
                    cut = self.rng.randrange(1, len(data))
                side.out.write(data[:cut])
                side.out.write(data[cut:])
            else:
                side.out.write(text)

    def _close(self, connection: int, code: int | None) -> None:
        side = self.sides.pop(connection, None)
        if side is None:
            return
        if code is not None:
            side.close(Ended(code), CLOSE_TIMEOUT)
        else:
            side.abort()

    def opened(self, side: Side) -> None:
        if side.alive:
            self.handle(ev.Connected(side.number))

    def arrived(self, side: Side, data: bytes) -> None:
        for _, text in payloads(data):
            if not side.alive:
                return
            messages = wire.decode_answers(text)
            for message in messages if self.account is not None else ():
                if isinstance(message, wire.Welcome):
                    self.account.listed(message.subscriptions)  # type: ignore[union-attr]
            if any(type(message) is wire.Gap for message in messages):
                self._known = {handle: each.id for handle, each in self.state.subscriptions.by_handle.items()}
            self.handle(ev.Received(side.number, messages))

    def ended(self, side: Side, how: Ended) -> None:
        self.sides.pop(side.number, None)
        if self.trace:
            self.trace.say(self.name, f"connection {side.number} ended: {how.reason or how.code}")
        self.handle(ev.Disconnected(side.number, how.code, how.reason))


def masked(payload: bytes, rng: Random) -> bytes:
    """A client's frame, masked as RFC 6455 requires."""
    size, mask = len(payload), rng.randbytes(4)
    if size < 126:
        head = bytes((0x80 | TEXT, 0x80 | size))
    elif size < 65_536:
        head = bytes((0x80 | TEXT, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | TEXT, 0x80 | 127)) + size.to_bytes(8, "big")
    return head + mask + unmask(payload, mask)
