"""WebSocket frames (RFC 6455) without I/O: bytes in, messages out. Only what a server needs.

A server's frames are not masked, so a message is framed once and the same bytes go to every subscriber. Incoming frames
are small and few; the decoder keeps nothing between them but an unfinished one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tocsin.wire import close_codes
from tocsin.wire.close_codes import Close

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_CONTROL = 0x8
_medium = struct.Struct(">BBH").pack
_KNOWN = frozenset((CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG))
#: Codes below 3000 that may be in a close frame.
_CODES = frozenset((1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014))


class FrameError(Exception):
    """The peer broke the protocol: the connection ends with ``close``."""

    def __init__(self, close: Close, reason: str) -> None:
        super().__init__(reason)
        self.close = close
        self.reason = reason


def frame(payload: bytes, opcode: int = TEXT) -> bytes:
    """One unmasked frame."""
    size = len(payload)
    if 125 < size < 65_536:
        return _medium(0x80 | opcode, 126, size) + payload
    if size < 126:
        return bytes((0x80 | opcode, size)) + payload
    return bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big") + payload


def close_frame(code: int, reason: str = "") -> bytes:
    text = reason.encode()[:123]
    # A reason cut in the middle of a character is not UTF-8.
    return frame(code.to_bytes(2, "big") + text.decode(errors="ignore").encode(), CLOSE)


def check_close(payload: bytes) -> None:
    """Nothing, or a code that may be sent and a reason in UTF-8."""
    if not payload:
        return
    code = int.from_bytes(payload[:2], "big")
    if len(payload) == 1 or not (code in _CODES or 3000 <= code < 5000):
        raise FrameError(close_codes.PROTOCOL_ERROR, "a close frame without a code that may be sent")
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        raise FrameError(close_codes.NOT_UTF8, "the reason of a close frame is not UTF-8") from None


def payloads(data: bytes) -> list[tuple[int, bytes]]:
    """(opcode, payload) of whole unmasked frames that stand one after the other, as ``frame`` made them."""
    found = []
    at = 0
    while at < len(data):
        opcode, size = data[at] & 0x0F, data[at + 1]
        at += 2
        if size >= 126:
            wide = 2 if size == 126 else 8
            size = int.from_bytes(data[at : at + wide], "big")
            at += wide
        found.append((opcode, data[at : at + size]))
        at += size
    return found


def unmask(data: bytes | bytearray, mask: bytes | bytearray) -> bytes:
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(key, "little")).to_bytes(size, "little")


class FrameDecoder:
    """The frames of one client. ``feed`` gives (opcode, payload) of whole messages and control frames.

    What came before a broken frame is given before the error is raised: how bytes arrive in pieces changes nothing.
    """

    __slots__ = ("_buffer", "_kind", "_parts", "_size", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buffer: bytes | bytearray = b""
        self._parts: list[bytes] | None = None
        self._kind = TEXT
        self._size = 0

    def feed(self, data: bytes | bytearray) -> Iterator[tuple[int, bytes]]:
        """To be read to its end, or never again after a close frame."""
        if self._buffer:
            # In place: a large frame in small pieces is not copied for each of them.
            self._buffer += data
            data = self._buffer
        at = 0
        while (whole := self._frame(data, at)) is not None:
            at, final, opcode, payload = whole
            if opcode & _CONTROL:
                yield opcode, payload
            elif (message := self._joined(final, opcode, payload)) is not None:
                yield message
        if at == len(data):
            self._buffer = b""
        elif at or not self._buffer:
            self._buffer = bytearray(data[at:])

    def _frame(self, data: bytes | bytearray, at: int) -> tuple[int, bool, int, bytes] | None:
        """(where it ends, is it the last of its message, opcode, payload), or None if it is not all there."""
        if len(data) - at < 2:
            return None
        first, second = data[at], data[at + 1]
        opcode = first & 0x0F
        if first & 0x70:
            raise FrameError(close_codes.PROTOCOL_ERROR, "reserved bits are set")
        if opcode not in _KNOWN:
            raise FrameError(close_codes.PROTOCOL_ERROR, f"there is no opcode {opcode}")
        if not second & 0x80:
            raise FrameError(close_codes.PROTOCOL_ERROR, "a client masks its frames")
        size = second & 0x7F
        if opcode & _CONTROL and (size > 125 or not first & 0x80):
            raise FrameError(close_codes.PROTOCOL_ERROR, "a control frame is one frame of at most 125 bytes")
        at += 2
        if size >= 126:
            wide = 2 if size == 126 else 8
            if len(data) - at < wide:
                return None
            size = int.from_bytes(data[at : at + wide], "big")
            at += wide
        # Before anything of it is kept: a length is only a claim.
        if not opcode & _CONTROL and size + self._size > self.limit:
            raise FrameError(close_codes.TOO_BIG, f"more than {self.limit} bytes in a message")
        if len(data) - at < 4 + size:
            return None
        mask = data[at : at + 4]
        at += 4
        payload = unmask(data[at : at + size], mask)
        if opcode == CLOSE:
            check_close(payload)
        return at + size, bool(first & 0x80), opcode, payload

    def _joined(self, final: bool, opcode: int, payload: bytes) -> tuple[int, bytes] | None:
        if (opcode == CONTINUATION) != (self._parts is not None):
            raise FrameError(close_codes.PROTOCOL_ERROR, "a message begins once and is then continued")
        if self._parts is None:
            if final:
                return opcode, payload
            self._parts, self._kind = [], opcode
        self._parts.append(payload)
        self._size += len(payload)
        # Empty pieces cost no bytes, but a list of them does.
        if len(self._parts) > 1024:
            raise FrameError(close_codes.TOO_BIG, "a message in more than 1024 pieces")
        if not final:
            return None
        whole = self._kind, b"".join(self._parts)
        self._parts, self._size = None, 0
        return whole
