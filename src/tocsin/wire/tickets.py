"""Tickets let a subscriber connect to a broker. The coordinator signs them with a key that it shares with the broker.

A broker's key is derived from the coordinator's secret and the broker's name, so no broker can sign a ticket for
another one. Where brokers balance among themselves, each also issues tickets for itself, to subscribers that it has
agreed to take.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable

import msgspec
from msgspec import Struct

#: Seconds by which the clocks of coordinator and broker may differ.
SKEW = 30.0


class Ticket(Struct, frozen=True):
    subscriber: str
    broker: str
    expires: float
    nonce: str


def key_for(secret: bytes, broker: str, incarnation: str = "") -> bytes:
    """``incarnation`` changes with each start of a broker and so makes earlier tickets invalid: a broker remembers used
    tickets only while it runs.
    """
    return hmac.new(secret, f"ticket\0{len(broker)}\0{broker}\0{incarnation}".encode(), hashlib.sha256).digest()


def sign(ticket: Ticket, key: bytes) -> str:
    body = msgspec.json.encode(ticket)
    return f"{_text(body)}.{_text(hmac.digest(key, body, 'sha256'))}"


class TicketVerifier:
    """Verifies tickets: each is valid once, for one subscriber, at one broker, for a limited time.

    ``key`` is the coordinator's, ``own`` that of tickets which the broker issues itself; it ends with the process.
    """

    def __init__(self, broker: str, clock: Callable[[], float], own: bytes | None = None) -> None:
        self.broker = broker
        self.clock = clock
        self.key: bytes | None = None
        self.own = own
        self._used: dict[str, float] = {}

    def issue(self, subscriber: str, seconds: float, nonce: str) -> str:
        """A ticket of this broker for itself."""
        assert self.own is not None
        return sign(Ticket(subscriber, self.broker, self.clock() + seconds, nonce), self.own)

    def refuses(self, text: str, subscriber: str) -> str | None:
        """The reason for the rejection; None accepts the ticket and uses it up."""
        keys = [key for key in (self.key, self.own) if key is not None]
        if not keys:
            return "this broker has no coordinator"
        body, _, signature = text.partition(".")
        try:
            if "=" in text:  # a ticket has only one spelling
                raise ValueError
            data, signed = _bytes(body), _bytes(signature)
        except (binascii.Error, ValueError):
            return "this is not a ticket"
        if not any(hmac.compare_digest(hmac.digest(key, data, "sha256"), signed) for key in keys):
            return "the signature is wrong"
        ticket = msgspec.json.decode(data, type=Ticket)
        now = self.clock()
        if ticket.broker != self.broker or ticket.subscriber != subscriber:
            return "the ticket is for another subscriber or broker"
        if ticket.expires < now - SKEW:
            return "the ticket has expired"
        if ticket.nonce in self._used:
            return "the ticket was used before"
        self._used[ticket.nonce] = ticket.expires
        for nonce, expires in list(self._used.items()):
            if expires >= now - SKEW:
                break
            del self._used[nonce]
        return None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
