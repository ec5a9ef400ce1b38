"""Every close code a broker uses, and whether the client should reconnect.

4000 to 4099 mean stop: the same client would be refused again. 4100 to 4199 mean reconnect.
"""

from __future__ import annotations

from msgspec import Struct


class Close(Struct, frozen=True):
    code: int
    name: str
    reconnect: bool
    meaning: str


NORMAL = Close(1000, "normal", False, "The client has closed the connection.")
GOING_AWAY = Close(1001, "going_away", True, "The broker shuts down. Reconnect to it or to another one.")
PROTOCOL_ERROR = Close(1002, "protocol_error", False, "The bytes are not WebSocket frames as RFC 6455 defines them.")
UNSUPPORTED = Close(1003, "unsupported", False, "A binary frame; this protocol has text frames only.")
NOT_UTF8 = Close(1007, "not_utf8", False, "The text of a frame is not UTF-8.")
TOO_BIG = Close(1009, "too_big", False, "A frame or message is larger than the broker accepts (`frame_bytes`).")
INTERNAL = Close(1011, "internal", True, "Something failed in the broker; its log has the details.")
TRY_LATER = Close(1013, "try_later", True, "The broker is full. Wait, or connect to another one.")

MALFORMED = Close(4000, "malformed", False, "A frame is not JSON, or a message is not one of the protocol.")
UNAUTHORIZED = Close(4001, "unauthorized", False, "The token is not valid, has expired or was revoked: log in again.")
REPLACED = Close(4002, "replaced", False, "The same user and device, or the same subscriber, has connected again.")
NO_HELLO = Close(4003, "no_hello", False, "The first message was not `hello`, or a second `hello` came.")
FLOOD = Close(4004, "flood", False, "The client sends too many requests, or does not read the answers.")
LOGGED_OUT = Close(4005, "logged_out", False, "The user logged out, or the session has expired.")

BAD_TICKET = Close(
    4006,
    "bad_ticket",
    False,
    "The ticket is forged, expired, already used or for another subscriber; connect without it.",
)

SILENT = Close(4100, "silent", True, "The client sent nothing for too long.")
HELLO_TIMEOUT = Close(4101, "hello_timeout", True, "No `hello` came in time.")
MIGRATED = Close(4102, "migrated", True, "Another broker serves the subscriber now.")
UNVERIFIED = Close(4103, "unverified", True, "The token could not be checked, because a store fails. Reconnect later.")

CLOSES: dict[int, Close] = {each.code: each for each in tuple(vars().values()) if isinstance(each, Close)}


def reconnect(code: int | None) -> bool:
    """Whether to reconnect after this code, or after a connection that broke without one."""
    if code is None or code == 1006:
        return True
    known = CLOSES.get(code)
    if known is not None:
        return known.reconnect
    return not (4000 <= code < 4100 or code in (1010, 1015))
