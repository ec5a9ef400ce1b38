"""What all parts of a peer share while an event is handled: time, randomness, and what is to be sent."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from msgspec import Struct

from tocsin.overlay.keyspace.messages import Ask, Reply
from tocsin.overlay.keyspace.model.settings import Settings


class Send(Struct, frozen=True, eq=False):
    host: str
    message: Any


class Done(Struct, frozen=True, eq=False):
    """A command is over; ``body`` is its answer, or Failed."""

    call: int
    body: Any
    hops: int = 0


class Context:
    """``acquaintances``: hosts that this one has met, the latest last."""

    def __init__(self, host: str, settings: Settings, rng: Random, bootstrap: Iterable[str] = ()) -> None:
        self.host, self.settings, self.rng = host, settings, rng
        self.now = 0.0
        self.out: list[Send | Done] = []
        self.bootstrap = [each for each in bootstrap if each != host]
        self.acquaintances: dict[str, None] = {}

    def send(self, host: str, message: Any) -> None:
        self.out.append(Send(host, message))

    def reply(self, host: str, id: int, body: Any, hops: int = 0) -> None:
        if id:
            self.send(host, Reply(id, body, hops))

    def notify(self, host: str, ring: str, member: str, body: Any) -> None:
        """Without an answer."""
        self.send(host, Ask(0, ring, member, body))

    def met(self, host: str) -> None:
        known = self.acquaintances
        if host != self.host and next(reversed(known), "") != host:
            known.pop(host, None)
            known[host] = None
            if len(known) > self.settings.acquaintances:
                del known[next(iter(known))]

    def someone(self, tried: int = 0) -> str | None:
        """A random host that is or was part of the overlay; after that, those it met last."""
        known = [*self.bootstrap, *self.acquaintances]
        if not known:
            return None
        return known[-((tried + 1) // 2) % len(known)] if tried % 2 else self.rng.choice(known)
