"""The inner port, where the data cluster tells of executions: little between the bytes and the state machine.

What costs there is not the work but the code it runs through: each piece of it is cold again after thousands of writes.
So a request of the usual kind is read here, and all others are left to the web server.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.broker.events import Told
from tocsin.errors import Conflict, Malformed
from tocsin.web.answers import error_answer

if TYPE_CHECKING:
    from tocsin.broker.driver import Driver

#: A message may hold all results of an execution (a push channel).
TOLD_BYTES = 256 * 1024 * 1024
#: Heads that were read before: one client's differ by their lengths only.
HEADS = 256

_REQUEST = b"POST /told HTTP/1.1"
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
#: What changes the meaning of a request.
_UNUSUAL = frozenset((b"transfer-encoding", b"connection", b"expect", b"upgrade", b"content-encoding"))


class Tell(Told, frozen=True, gc=False, kw_only=True):
    """What the data cluster tells of an execution."""

    broker: str


_told = msgspec.json.Decoder(Tell | list[Tell])


class Ear:
    """Takes what is told. ``settled`` says whether it is known that nothing before it was lost."""

    def __init__(self, driver: Driver, settled: asyncio.Event) -> None:
        self.driver = driver
        self._name = driver.config.name
        self.settled = settled
        self.listening: set[Inside] = set()

    def hear(self, body: bytes | bytearray) -> None:
        """Raises what is wrong with it. What it causes goes out at once."""
        name = self._name
        try:
            found = _told.decode(body)
        except msgspec.DecodeError as error:
            raise Malformed(str(error)) from None
        tells = found if type(found) is list else [found]
        for tell in tells:
            if tell.broker != name:
                raise Conflict(f"this is {name}, not {tell.broker}")
        self.driver.hear(tells)

    def close(self) -> None:
        for each in list(self.listening):
            each.close()


class Inside(asyncio.Protocol):
    """A connection of the data cluster. ``web`` makes the protocol that answers everything unusual."""

    def __init__(self, ear: Ear, web: Callable[[], asyncio.Protocol]) -> None:
        self._ear = ear
        self._web = web
        self._rest = bytearray()
        self._waiting: asyncio.Task[None] | None = None
        self._heads: dict[bytes, int] = {}
        self._head, self._whole = b"", -1  # the last one that came in one piece, and how long all of it was

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._fd = transport.get_extra_info("socket").fileno()
        self._ear.listening.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fd = -1
        self._ear.listening.discard(self)
        if self._waiting is not None:
            self._waiting.cancel()

    def close(self) -> None:
        self._fd = -1
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._rest or self._waiting is not None:
            self._rest += data
            if self._waiting is None:
                self._read()
            return
        head = self._head
        if len(data) == self._whole and data.startswith(head):
            if self._ear.settled.is_set():
                self._hear(data[len(head) :])
            else:
                self._told(data[len(head) :])
            return
        end = data.find(b"\r\n\r\n") + 4
        size = self._size(data[:end]) if end > 3 else None
        if size is not None and len(data) == end + size:
            self._head, self._whole = data[:end], end + size
            self._told(data[end:])
        else:
            self._rest += data
            self._read()

    def _read(self) -> None:
        """What did not come as one piece, or as more than one."""
        rest = self._rest
        while rest and self._waiting is None:
            end = rest.find(b"\r\n\r\n") + 4
            size = self._size(bytes(rest[:end])) if end > 3 else None
            if size is None:
                if end > 3 or not _REQUEST.startswith(rest[: len(_REQUEST)]) or len(rest) > 65_536:
                    self._hand_over()
                return
            if len(rest) < end + size:
                return
            body = bytes(memoryview(rest)[end : end + size])
            del rest[: end + size]
            self._told(body)

    def _size(self, head: bytes) -> int | None:
        """Of the body; None: somebody else has to look at it."""
        size = self._heads.get(head)
        if size is None:
            size = plain_size(head)
            if size is not None:
                if len(self._heads) >= HEADS:
                    self._heads.clear()
                self._heads[head] = size
        return size

    def _told(self, body: bytes) -> None:
        if self._ear.settled.is_set():
            self._hear(body)
        else:
            self._waiting = asyncio.get_running_loop().create_task(self._later(body))

    async def _later(self, body: bytes) -> None:
        """One that tells does not say the next thing before it has the answer; what it does say waits."""
        await self._ear.settled.wait()
        self._waiting = None
        self._hear(body)
        self._read()

    def _hear(self, body: bytes) -> None:
        try:
            self._ear.hear(body)
        except Exception as error:
            answer = error_answer(error, "POST /told")
            head = b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            self._transport.write(head % (answer.status_code, len(answer.body)) + bytes(answer.body))
            if self._transport.get_write_buffer_size():
                self._fd = -1
        else:
            self._answer()

    def _answer(self) -> None:
        """The way that the notifications just went is warm, unlike that through the loop."""
        try:
            sent = os.write(self._fd, _ANSWER)
        except OSError:
            sent = 0
        if sent < len(_ANSWER):
            self._fd = -1  # something waits now, and what follows has to come behind it
            self._transport.write(_ANSWER[sent:])

    def _hand_over(self) -> None:
        self._ear.listening.discard(self)
        protocol: Any = self._web()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(bytes(self._rest))


def plain_size(head: bytes) -> int | None:
    """Of the body of a request to tell of something, where it says nothing unusual."""
    first, *lines = head.split(b"\r\n")
    if first != _REQUEST:
        return None
    found: int | None = None
    for line in lines[:-2]:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name == b"content-length" and found is None and value.strip(b" \t").isdigit():
            found = int(value)
        elif name == b"content-length" or (name in _UNUSUAL and value.strip(b" \t").lower() != b"keep-alive"):
            return None
    return found if found is not None and found <= TOLD_BYTES else None
