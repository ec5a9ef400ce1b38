"""A subscriber's WebSocket: a raw protocol of the loop, with nothing between a frame and the socket.

A handshake that is not of the usual kind is left to the ``websockets`` library. No extensions are taken, so that
frames can be shared.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from tocsin.broker.core.events import Closed, Congested, Drained, Opened, Received, Unreadable
from tocsin.broker.transport.handshake import PATH, plain_answer
from tocsin.errors import Malformed
from tocsin.wire import SUBPROTOCOL, close_codes, decode
from tocsin.wire.frames import BINARY, CLOSE, PING, PONG, TEXT, FrameDecoder, FrameError, close_frame, frame

if TYPE_CHECKING:
    from tocsin.broker.transport.driver import Driver
    from tocsin.wire.messages import FromClient

#: Seconds that the other side has to answer a close frame.
CLOSING = 5.0


class WebSocket(asyncio.Protocol):
    """A peer of the state machine.

    ``fd`` is the socket as long as nothing waits to be written: then frames may go to it directly, which is cheaper by
    a tenth than through the loop. Otherwise it is -1.
    """

    __slots__ = ("_address", "_closing", "_decoder", "_driver", "_fileno", "_most", "_transport", "fd")

    def __init__(self, driver: Driver, address: str) -> None:
        self._driver = driver
        self._address = address
        self._decoder: FrameDecoder | None = None
        self._closing = False
        self.fd = self._fileno = -1
        self._most = 0  # bytes that may wait while the other side is slow

    # -- from the loop

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._decoder is None:
            self._shake_hands(data)
            return
        if self._closing:
            return  # only the end of the connection is of interest now
        messages: list[FromClient] = []  # of all frames that are here: one event of the state machine
        try:
            for opcode, payload in self._decoder.feed(data):
                if opcode == TEXT:
                    self._text(payload, messages)
                else:
                    self._control(opcode, payload, messages)
                if self._closing:
                    return
            self._receive(messages)
        except FrameError as error:
            self._receive(messages)
            self._gone()
            self.close(error.close, error.reason)

    def _shake_hands(self, data: bytes) -> None:
        answer = plain_answer(data)
        if answer is not None:
            self._transport.write(answer)
            self._open()
        else:
            self._shake_hands_slowly(data)

    def _shake_hands_slowly(self, data: bytes) -> None:
        server = ServerProtocol(subprotocols=[Subprotocol(SUBPROTOCOL)], max_size=None)
        server.receive_data(data)
        found = server.events_received()
        if not found or not isinstance(found[0], Request):
            self._transport.close()
            return
        request = found[0]
        path = request.path.partition("?")[0]
        answer = server.accept(request) if path == PATH else server.reject(404, f"WebSockets are at {PATH}\n")
        server.send_response(answer)
        for piece in server.data_to_send():
            if piece:
                self._transport.write(piece)
        if answer.status_code != 101:
            self._transport.close()
            return
        self._open()

    def _open(self) -> None:
        driver = self._driver
        self._decoder = FrameDecoder(driver.config.limits.frame_bytes)
        if self._transport.get_extra_info("ssl_object") is None:  # else only the loop can encrypt
            self.fd = self._fileno = self._transport.get_extra_info("socket").fileno()
        self._transport.set_write_buffer_limits(high=driver.config.buffer_bytes)
        driver.handle(Opened(self, self._address))

    def _control(self, opcode: int, payload: bytes, messages: list[FromClient]) -> None:
        if opcode == CLOSE:
            self._receive(messages)
            self._gone()
            self._end(payload[:2])
        elif opcode == PING:
            self.write(frame(payload, PONG))
        elif opcode == BINARY:
            raise FrameError(close_codes.UNSUPPORTED, "text frames only")

    def _text(self, payload: bytes, messages: list[FromClient]) -> None:
        try:
            messages += decode(payload.decode())
        except UnicodeDecodeError:
            raise FrameError(close_codes.NOT_UTF8, "the text is not UTF-8") from None
        except Malformed as error:
            self._receive(messages)
            if not self._closing:
                self._driver.handle(Unreadable(self, error.message, error.fields.get("id")))

    def _receive(self, messages: list[FromClient]) -> None:
        if messages:
            received = messages[:]
            messages.clear()
            self._driver.handle(Received(self, received))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._use(-1)
        if not self._closing:
            self._closing = True
            self._gone()

    def pause_writing(self) -> None:
        if not self._closing:
            # It is still read from, or its pongs would not arrive; but its requests make more to write.
            self._most = self._transport.get_write_buffer_size() + self._driver.config.buffer_bytes
            self._driver.handle(Congested(self))

    def resume_writing(self) -> None:
        self._most = 0
        if not self._closing:
            self._driver.handle(Drained(self))

    # -- from the driver

    def send(self, messages: tuple[bytes, ...], frames: bytes) -> None:
        self.write(frames)

    def write(self, data: bytes) -> None:
        """Through the loop, which keeps what the socket does not take now."""
        if not self._closing:
            self._transport.write(data)
            size = self._transport.get_write_buffer_size()
            self._use(-1 if size else self._fileno)
            if 0 < self._most < size:
                self._gone()
                self.close(close_codes.FLOOD, "answers are not read")

    def _use(self, fd: int) -> None:
        if fd != self.fd:
            self.fd = fd
            self._driver.writer.changes += 1

    def close(self, close: close_codes.Close, reason: str = "") -> None:
        self._end(close.code.to_bytes(2, "big"), reason)

    def _gone(self) -> None:
        if self._decoder is not None:
            self._driver.handle(Closed(self))

    def _end(self, code: bytes, reason: str = "") -> None:
        if self._closing:
            return
        self._closing = True
        self._use(-1)
        self._transport.write(close_frame(int.from_bytes(code, "big") if len(code) == 2 else 1000, reason))
        self._transport.close()
        # Closing waits for what is still to be written, and the other side may never read it.
        self._driver.loop.call_later(CLOSING, self._transport.abort)
