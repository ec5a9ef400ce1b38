"""Many subscribers of one channel in this process, which only count; for ``tocsin bench sub``."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from typing import Any

import msgspec
from msgspec import Raw, Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from tocsin.cli.spread import Spread
from tocsin.client.addresses import address
from tocsin.errors import ConnectionLost, TocsinError, Unreachable, UserError
from tocsin.http.client import trust
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.remote_errors import remote_error

#: Connections that are being made at the same time.
AT_ONCE = 100
#: A number of the time column above this is in milliseconds.
MILLISECONDS = 1e11


class Head(Struct):
    """The part of a message that is needed for counting."""

    type: str
    id: int | None = None
    subscription: int = 0
    execution: int = 0
    after: int = 0
    next: int = 0
    count: int = 0
    results: Raw = Raw(b"[]")
    code: str = ""
    message: str = ""
    hint: str = ""


_heads = msgspec.json.Decoder(Head | list[Head])
_rows = msgspec.json.Decoder(list[dict[str, Any]])
_PONG = wire.encode(wire.Pong()).decode()


class Subscriber(Struct, eq=False):
    """``execution`` is the last one that it has."""

    notifications: int = 0
    execution: int = 0
    socket: ClientConnection | None = None
    lost: bool = False


class Crowd:
    """All subscribers, and what they received together since all were subscribed."""

    def __init__(self, broker: str, channel: str, args: dict[str, Any], time_column: str | None = None) -> None:
        self.address = address(broker)
        self.channel, self.args = channel, args
        self.time_column = time_column
        self.members: list[Subscriber] = []
        self.notifications = self.results = self.bytes = self.lagging = self.gaps = self.twice = 0
        self.latency = Spread()
        self.began = 0.0
        self.wanted: int | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._left = 0
        self._done = asyncio.Event()
        self._error: TocsinError | None = None

    async def gather(self, count: int) -> None:
        """Returns when all of them are subscribed."""
        room = asyncio.Semaphore(AT_ONCE)

        async def come() -> None:
            async with room:
                member = Subscriber()
                early = await self._subscribe(member)
                self.members.append(member)
                self._tasks.append(asyncio.create_task(self._listen(member, early)))

        coming = [asyncio.create_task(come()) for _ in range(count)]
        try:
            await asyncio.gather(*coming)
        except BaseException:
            for task in coming:
                task.cancel()
            await asyncio.gather(*coming, return_exceptions=True)
            raise

    async def count(self, seconds: float, wanted: int | None) -> None:
        """Counts for ``seconds``, or until each subscriber has ``wanted`` notifications."""
        self.began, self.wanted, self._left = time.monotonic(), wanted, len(self.members)
        # Notifications before all were subscribed do not count.
        self.notifications = self.results = self.bytes = self.lagging = self.gaps = self.twice = 0
        self.latency = Spread()
        for each in self.members:
            each.notifications = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._done.wait()
        if self._error is not None:
            raise self._error

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # Closing handshakes would take a round trip each.
        for each in self.members:
            if each.socket is not None:
                each.socket.transport.abort()

    async def _subscribe(self, member: Subscriber) -> list[Head]:
        """Messages in the same frame after the answer."""
        try:
            member.socket = await connect(
                self.address.socket,
                subprotocols=[Subprotocol(wire.SUBPROTOCOL)],
                compression=None,
                ssl=trust() if self.address.socket.startswith("wss:") else None,
                max_size=None,
                ping_interval=None,
            )
        except InvalidStatus as error:
            raise UserError(f"{self.address.http} does not answer like a broker: {error}") from error
        except (OSError, WebSocketException) as error:
            raise Unreachable(
                f"no broker answers at {self.address.http}: {error}",
                hint="start one with `tocsin up` or `tocsin broker`",
            ) from error
        hello = wire.encode(wire.Hello(0, agent="tocsin bench"))
        request = wire.encode(wire.Subscribe(1, self.channel, self.args))
        await member.socket.send(hello, text=True)
        await member.socket.send(request, text=True)
        while True:
            heads = await self._heads(member.socket)
            for index, head in enumerate(heads):
                if head.type == "error":
                    raise remote_error(head.code, head.message, head.hint)
                if head.type == "subscribed":
                    member.execution = head.after
                    return heads[index + 1 :]

    async def _heads(self, socket: ClientConnection) -> list[Head]:
        try:
            data = await socket.recv(decode=False)
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else None
            known = close_codes.CLOSES.get(code or 0)
            why = closed.rcvd.reason if closed.rcvd is not None and closed.rcvd.reason else known and known.meaning
            raise ConnectionLost(f"the broker ended a connection, {code}: {why or 'without a reason'}") from closed
        self.bytes += len(data)
        found = _heads.decode(data)
        return found if isinstance(found, list) else [found]

    async def _listen(self, member: Subscriber, early: list[Head]) -> None:
        assert member.socket is not None
        heads = early
        try:
            while True:
                for head in heads:
                    await self._receive(member, member.socket, head)
                heads = await self._heads(member.socket)
        except ConnectionLost:
            member.lost = True
            if all(each.lost for each in self.members):
                self._done.set()
        except TocsinError as error:
            self._error = error
            self._done.set()

    async def _receive(self, member: Subscriber, socket: ClientConnection, head: Head) -> None:
        if head.type == "notify":
            self._notified(member, head)
        elif head.type == "ping":
            await socket.send(_PONG)
        elif head.type == "lagging":
            self.lagging += 1
        elif head.type == "gap":
            self.gaps += 1
            member.execution = max(member.execution, head.next - 1)
        elif head.type == "ended":
            raise remote_error(head.code, head.message)

    def _notified(self, member: Subscriber, head: Head) -> None:
        if head.execution <= member.execution:
            self.twice += 1
            return
        member.execution = head.execution
        member.notifications += 1
        self.notifications += 1
        self.results += head.count
        if self.time_column is not None:
            now = time.time()
            for row in _rows.decode(head.results):
                self.latency.add(now - moment(row, self.time_column))
        if member.notifications == self.wanted:
            self._left -= 1
            if not self._left:
                self._done.set()

    def report(self, seconds: float) -> dict[str, Any]:
        counts = [each.notifications for each in self.members] or [0]
        executions = [each.execution for each in self.members] or [0]
        return {
            "channel": self.channel,
            "subscribers": len(self.members),
            "seconds": round(seconds, 3),
            "notifications": self.notifications,
            "results": self.results,
            "bytes": self.bytes,
            "notifications_per_second": round(self.notifications / seconds, 1),
            "bytes_per_second": round(self.bytes / seconds, 1),
            "latency_ms": self.latency.milliseconds(),
            "slowest": {
                "notifications": min(counts),
                "of": max(counts),
                "lag": max(executions) - min(executions),
            },
            "lagging": self.lagging,
            "gaps": self.gaps,
            "twice": self.twice,
            "lost": sum(each.lost for each in self.members),
        }


def moment(row: dict[str, Any], column: str) -> float:
    """Seconds since 1970, from a number of seconds or milliseconds, or from a date and time (UTC unless it says)."""
    if column not in row:
        raise UserError(f"the results have no column {column!r}", hint=f"they have: {', '.join(row)}")
    value = row[column]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1e3 if value > MILLISECONDS else float(value)
    try:
        found = datetime.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise UserError(f"{column} is not a time: {value!r}", hint="a timestamp, or a number of seconds") from None
    return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp()
