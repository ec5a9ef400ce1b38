"""A connection between two brokers: a WebSocket of which both sides are the same, once it is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from tocsin.wire import close_codes
from tocsin.wire.close_codes import Close
from tocsin.wire.join import PART
from tocsin.wire.links import LINK_BYTES, LINK_PATH, LINK_SUBPROTOCOL

#: Seconds that the other side has to open the connection, and to end it.
PATIENCE = 5.0
_SUBPROTOCOLS = [Subprotocol(LINK_SUBPROTOCOL)]


class Hub(Protocol):
    """What gets the messages of all links."""

    def opened(self, socket: LinkSocket) -> None: ...
    def received(self, socket: LinkSocket, data: bytes) -> None: ...
    def closed(self, socket: LinkSocket) -> None: ...


class LinkSocket(asyncio.Protocol):
    """``name`` is that of the other broker, '' until it is known. ``ended`` has the reason once it is closed."""

    def __init__(self, hub: Hub, protocol: ServerProtocol | ClientProtocol, name: str = "") -> None:
        self._hub, self._protocol, self.name = hub, protocol, name
        self.outgoing = isinstance(protocol, ClientProtocol)
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str] = self._loop.create_future()
        self.is_open = False
        self._flushing = False
        self._parts: list[bytes] = []
        self._admit: Callable[[Request], str | None] = lambda request: None
        self._headers: dict[str, str] = {}
        self.messages_in = self.messages_out = self.bytes_in = self.bytes_out = 0

    @classmethod
    def server(cls, hub: Hub, admit: Callable[[Request], str | None]) -> LinkSocket:
        """``admit`` names the broker that a request is from."""
        found = cls(hub, ServerProtocol(subprotocols=_SUBPROTOCOLS, max_size=LINK_BYTES))
        found._admit = admit
        return found

    @classmethod
    def client(cls, hub: Hub, inside: str, name: str, headers: dict[str, str]) -> LinkSocket:
        """To the inner port of the broker of this name."""
        uri = parse_uri(inside.rstrip("/").replace("http", "ws", 1) + LINK_PATH)
        found = cls(hub, ClientProtocol(uri, subprotocols=_SUBPROTOCOLS, max_size=LINK_BYTES), name)
        found._headers = headers
        return found

    # -- from the loop

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._loop.call_later(PATIENCE, self._too_late)
        if isinstance(self._protocol, ClientProtocol):
            request = self._protocol.connect()
            request.headers.update(self._headers)
            self._protocol.send_request(request)
            self._flush()

    def _too_late(self) -> None:
        if not self.is_open and not self.ended.done():
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame):
                self._frame(event)
        if self._protocol.state is State.OPEN and not self.is_open:
            self.is_open = True
            self._hub.opened(self)
        self._flush()

    def _answer(self, request: Request) -> None:
        assert isinstance(self._protocol, ServerProtocol)
        name = self._admit(request)
        if name is None:
            answer = self._protocol.reject(401, f"only a broker with a valid {PART} opens a link\n")
        else:
            self.name = name
            answer = self._protocol.accept(request)
            if answer.status_code == 101 and self._protocol.subprotocol is None:
                answer = self._protocol.reject(400, f"the subprotocol is {LINK_SUBPROTOCOL}\n")
        self._protocol.send_response(answer)

    def _frame(self, frame: Frame) -> None:
        if frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            if frame.opcode is Opcode.BINARY:
                self.close(close_codes.UNSUPPORTED, "text frames only")
            return
        self._parts.append(bytes(frame.data))
        if frame.fin and self._protocol.state is State.OPEN:
            if not self.is_open:  # the first message came with the handshake
                self.is_open = True
                self._hub.opened(self)
            data, self._parts = b"".join(self._parts), []
            self.messages_in += 1
            self.bytes_in += len(data)
            self._hub.received(self, data)

    def eof_received(self) -> bool:
        self._protocol.receive_eof()
        self._flush()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        reason = self._protocol.handshake_exc or exc or self._protocol.close_reason or self._protocol.close_code or ""
        if not self.ended.done():
            self.ended.set_result(str(reason))
        if self.is_open:
            self.is_open = False
            self._hub.closed(self)

    # -- from the hub

    def send(self, data: bytes) -> None:
        """All of one moment are written together."""
        if self.is_open and self._protocol.state is State.OPEN:
            self.messages_out += 1
            self.bytes_out += len(data)
            self._protocol.send_text(data)
            if not self._flushing:
                self._flushing = True
                self._loop.call_soon(self._flush)

    def close(self, close: Close, reason: str = "") -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(close.code, reason.encode()[:120].decode(errors="ignore"))
            self._flush()
        self._loop.call_later(PATIENCE, self._transport.abort)

    def _flush(self) -> None:
        self._flushing = False
        for piece in self._protocol.data_to_send():
            if piece:
                self._transport.write(piece)
            elif not self._transport.is_closing():
                self._transport.close()
        if self._protocol.close_expected():
            self._loop.call_later(PATIENCE, self._transport.abort)
