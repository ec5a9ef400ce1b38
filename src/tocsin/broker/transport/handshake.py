"""The handshake of a WebSocket, for requests that ask for nothing unusual: when everybody comes back, it is what takes
the time. All others are left to the ``websockets`` library, which says what is wrong with them.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from hashlib import sha1

from tocsin.wire import SUBPROTOCOL

PATH = "/v1/ws"

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PROTOCOL = SUBPROTOCOL.encode()
_REQUEST = b"GET " + PATH.encode() + b" HTTP/1.1"
_ANSWER = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: %b\r\nSec-WebSocket-Protocol: " + _PROTOCOL + b"\r\n\r\n"
)
#: What decides about the answer.
_DECIDING = frozenset(
    (b"upgrade", b"connection", b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-protocol")
)


def plain_answer(request: bytes) -> bytes | None:
    """The answer to a whole request of the usual kind; None: the library has to read it.

    Extensions that are offered are not taken, so that frames can be shared.
    """
    first, *lines = request.split(b"\r\n")
    if first != _REQUEST or lines[-2:] != [b"", b""]:
        return None
    found: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name in found:
            return None
        if name in _DECIDING:
            found[name] = value.strip(b" \t")
    if len(found) != len(_DECIDING):
        return None
    key = found[b"sec-websocket-key"]
    if (
        found[b"upgrade"].lower() != b"websocket"
        or b"upgrade" not in _words(found[b"connection"].lower())
        or found[b"sec-websocket-version"] != b"13"
        or _PROTOCOL not in _words(found[b"sec-websocket-protocol"])
        or not _is_key(key)
    ):
        return None
    return _ANSWER % b64encode(sha1(key + _GUID, usedforsecurity=False).digest())


def _words(value: bytes) -> list[bytes]:
    return [each.strip(b" \t") for each in value.split(b",")]


def _is_key(text: bytes) -> bool:
    try:
        return len(binascii.a2b_base64(text, strict_mode=True)) == 16
    except binascii.Error:
        return False
