"""The inner port, where the data cluster notifies of executions: little between the bytes and the state machine.

What costs there is not the work but the code it runs through: each piece of it is cold again after thousands of writes.
So a request of the usual kind is read here, and all others are left to the web server.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tocsin.broker.core.events import Notified
from tocsin.errors import Conflict, Malformed, Unauthorized
from tocsin.http.access import Access
from tocsin.http.budgets import LEAST, WaitingConnections
from tocsin.http.requests import Headers
from tocsin.http.responses import error_answer
from tocsin.identity.part_keys import LIFETIME, PartGate, Peer
from tocsin.wire import notify_headers
from tocsin.wire.join import PART

if TYPE_CHECKING:
    from tocsin.broker.transport.driver import Driver

#: A message may hold all results of an execution (a push channel).
NOTIFY_BYTES = 256 * 1024 * 1024
#: Heads that were read before: one client's differ by their lengths only.
HEADS = 256

#: Requests that may be unanswered on a connection. Those that may be answered later are, together:
#: at most TOGETHER, and the first of them after at most SECONDS. Half of what is allowed, so that the sender never
#: waits for an answer.
UNANSWERED = 32
TOGETHER = UNANSWERED // 2
SECONDS = 0.005

_REQUEST = b"POST /notify HTTP/1.1"
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_ANSWER_NOW = b"HTTP/1.1 204 No Content\r\n%b: %d\r\n\r\n" % (notify_headers.UNANSWERED, UNANSWERED)
_REFUSAL = b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
_TOKEN = PART.encode()
#: What changes the meaning of a request.
_UNUSUAL = frozenset((b"transfer-encoding", b"connection", b"expect", b"upgrade", b"content-encoding"))


class Notification(Notified, frozen=True, gc=False, kw_only=True):
    """As the data cluster sends it."""

    broker: str


_notifications = msgspec.json.Decoder(Notification | list[Notification])


class Head(NamedTuple):
    """Of a request: the bytes of its body, whether its answer may come later, whether it has a sender's token, and all
    its fields."""

    size: int
    later: bool
    signed: bool
    fields: list[tuple[bytes, bytes]]


class NotificationReceiver:
    """``settled``: it is known whether an earlier notification was missed. Only the data cluster that this broker has
    joined, its ``peer``, may notify it."""

    def __init__(self, driver: Driver, settled: asyncio.Event, peer: Peer) -> None:
        self.driver = driver
        self.limits = driver.config.http
        #: Those that have not brought a notification yet, or only the begin of one.
        self.waiting = WaitingConnections(lambda: LEAST)
        self._name = driver.config.name
        self.settled = settled
        self.connections: set[NotifyEndpoint] = set()
        self._peer = peer
        self._gate = PartGate("broker", peer.own, "")

    def trusts(self, headers: Headers) -> bool:
        return self._gate.sender(headers, lambda name: self._peer.key) is not None

    def check(self, headers: Headers) -> None:
        if not self.trusts(headers):
            raise Unauthorized("only the data cluster that this broker has joined may notify it")

    def on_notify(self, body: bytes | bytearray) -> None:
        """Raises what is wrong with it. What it causes goes out at once."""
        name = self._name
        try:
            found = _notifications.decode(body)
        except msgspec.DecodeError as error:
            raise Malformed(str(error)) from None
        notifications = found if type(found) is list else [found]
        for each in notifications:
            if each.broker != name:
                raise Conflict(f"this is {name}, not {each.broker}")
        self.driver.on_notify(notifications)

    def close(self) -> None:
        for each in list(self.connections):
            each.close()


class NotifyEndpoint(asyncio.Protocol):
    """A connection of the data cluster. ``web`` makes the protocol that answers everything unusual."""

    def __init__(self, receiver: NotificationReceiver, web: Callable[[], asyncio.Protocol], access: Access) -> None:
        self._receiver = receiver
        self._web = web
        self._access = access
        self._rest = bytearray()
        self._waiting: asyncio.Task[None] | None = None
        self._heads: dict[bytes, Head] = {}
        # The last head that came in one piece with its body, how long that was, and whether its answer may wait.
        self._head, self._whole, self._later = b"", -1, False
        self._owed = 0  # answers
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        # The first request on a connection proves who sends. Those after it come from the same sender, which proves it
        # again from time to time: None while it is trusted.
        self._fields: list[tuple[bytes, bytes]] | None = []
        self._trust: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None  # for the first notification, or the rest of one
        self._begun, self._received = 0.0, 0
        self._partial = False  # a notification has begun

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        plain = transport.get_extra_info("ssl_object") is None
        self._fd = transport.get_extra_info("socket").fileno() if plain else -1
        self._receiver.connections.add(self)
        self._expect(self._receiver.limits.head_seconds)

    def _expect(self, seconds: float) -> None:
        """A notification. A connection that has brought one may be idle for any time."""
        loop = self._receiver.driver.loop
        self._begun, self._received = loop.time(), 0
        self._deadline = loop.call_later(seconds, self._check)
        self._receiver.waiting.add(self)

    def _check(self) -> None:
        limits, loop = self._receiver.limits, self._receiver.driver.loop
        due = self._begun + (limits.body_seconds + self._received / limits.body_rate if self._partial else 0.0)
        if due <= loop.time():
            self.abort()
        else:
            self._deadline = loop.call_at(due, self._check)

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline, self._partial = None, False
            self._receiver.waiting.discard(self)

    def abort(self) -> None:
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fd = -1
        self._closed = True
        self._receiver.connections.discard(self)
        self._arrived()
        if self._waiting is not None:
            self._waiting.cancel()
        for timer in (self._timer, self._trust):
            if timer is not None:
                timer.cancel()

    def close(self) -> None:
        """What was received is answered before."""
        self._answer()
        self._fd = -1
        self._closed = True
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._rest or self._waiting is not None or self._closed:
            if not self._closed:
                self._received += len(data)
                self._rest += data
                self._read()
            return
        head = self._head
        if len(data) == self._whole and data.startswith(head):
            self._notified(data[len(head) :], self._later)
            return
        end = data.find(b"\r\n\r\n") + 4
        found = self._find(data[:end]) if end > 3 else None
        if found is not None and len(data) == end + found.size:
            self._head, self._whole, self._later = data[:end], end + found.size, found.later
            self._notified(data[end:], found.later)
        else:
            self._rest += data
            self._read()

    def _read(self) -> None:
        """What did not come as one piece, or as more than one."""
        self._read_whole()
        if self._rest and not self._partial and self._waiting is None and not self._closed:
            self._arrived()
            self._expect(self._receiver.limits.body_seconds)
            self._partial = True

    def _read_whole(self) -> None:
        rest = self._rest
        while rest and self._waiting is None and not self._closed:
            end = rest.find(b"\r\n\r\n") + 4
            head = self._find(bytes(rest[:end])) if end > 3 else None
            if head is None:
                if end > 3 or not _REQUEST.startswith(rest[: len(_REQUEST)]) or len(rest) > 65_536:
                    self._hand_over()
                return
            whole = end + head.size
            if len(rest) < whole:
                return
            body = bytes(memoryview(rest)[end:whole])
            del rest[:whole]
            self._notified(body, head.later)

    def _find(self, head: bytes) -> Head | None:
        """None: the web server has to read it."""
        found = self._heads.get(head)
        if found is None:
            found = plain_head(head)
            if found is not None and self._access.refusal(found.fields) is not None:
                found = None
            if found is not None and (self._fields is not None or found.signed):
                self._fields = found.fields
                # Before its body, which may be long.
                if self._receiver.settled.is_set() and not self._receiver.trusts(found.fields):
                    return None
            if found is not None:
                if len(self._heads) >= HEADS:
                    self._heads.clear()
                self._heads[head] = found
        return found

    def _notified(self, body: bytes, later: bool) -> None:
        if self._deadline is not None:
            self._arrived()
        if not self._receiver.settled.is_set():
            # What follows waits in the socket: it may be more than is to be kept here.
            self._transport.pause_reading()
            self._waiting = asyncio.get_running_loop().create_task(self._wait(body, later))
            return
        try:
            if self._fields is not None:
                self._receiver.check(self._fields)
                self._fields = None
                self._trust_for(LIFETIME)
            self._receiver.on_notify(body)
        except Exception as error:
            self._refuse(error)
            return
        self._owed += 1
        if not later:
            self._answer(_ANSWER_NOW)
        elif self._owed >= TOGETHER:
            self._answer()
        elif self._timer is None:
            self._timer = self._receiver.driver.loop.call_later(SECONDS, self._due)

    def _trust_for(self, seconds: float) -> None:
        if self._trust is not None:
            self._trust.cancel()
        self._trust = self._receiver.driver.loop.call_later(seconds, self._distrust)

    def _distrust(self) -> None:
        """The next request has to prove again who sends."""
        self._trust = None
        self._fields = []
        self._heads.clear()
        self._head, self._whole = b"", -1

    async def _wait(self, body: bytes, later: bool) -> None:
        await self._receiver.settled.wait()
        self._waiting = None
        self._transport.resume_reading()
        self._notified(body, later)
        self._read()

    def _due(self) -> None:
        """The timer goes on when there were enough before: then the next ones only wait less."""
        self._timer = None
        self._answer()

    def _answer(self, last: bytes = _ANSWER) -> None:
        """All that is owed. The way that the notifications just went is warm, unlike that through the loop."""
        if not self._owed:
            return
        data = _ANSWER * (self._owed - 1) + last
        self._owed = 0
        try:
            sent = os.write(self._fd, data)
        except OSError:
            sent = 0
        if sent < len(data):
            self._fd = -1  # something waits now, and what follows comes after it
            self._transport.write(data[sent:])

    def _refuse(self, error: Exception) -> None:
        """Nothing after it is taken: when this one is repeated, in order, it would be a duplicate."""
        self._answer()
        answer = error_answer(error, "POST /notify")
        self._transport.write(_REFUSAL % (answer.status_code, len(answer.body)) + bytes(answer.body))
        self.close()

    def _hand_over(self) -> None:
        self._answer()
        self._fd = -1
        self._closed = True
        for timer in (self._timer, self._trust):
            if timer is not None:
                timer.cancel()
        self._receiver.connections.discard(self)
        self._arrived()
        protocol: Any = self._web()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(bytes(self._rest))


def plain_head(head: bytes) -> Head | None:
    """Of a notification, where it says nothing unusual."""
    first, *lines = head.split(b"\r\n")
    if first != _REQUEST:
        return None
    size: int | None = None
    later = signed = False
    fields = []
    for line in lines[:-2]:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        fields.append((name, value))
        if name == b"content-length" and size is None and value.isdigit():
            size = int(value)
        elif name == b"content-length" or (name in _UNUSUAL and value.lower() != b"keep-alive"):
            return None
        elif name == notify_headers.ANSWER:
            later = value == notify_headers.LATER
        elif name == _TOKEN:
            signed = True
    return Head(size, later, signed, fields) if size is not None and size <= NOTIFY_BYTES else None
