"""What a client hands to the application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tocsin.wire.messages import Refused


class Notification(Struct, frozen=True):
    """The results of one execution of a channel for one subscription. Iterating over it gives the results."""

    channel: str
    subscription: int
    execution: int
    results: list[Any]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __bool__(self) -> bool:
        return True  # a notification is one, however few results it has


class Missed(Struct, frozen=True):
    """Notifications behind ``after`` and before ``next`` may have been lost, and cannot be had any more."""

    channel: str
    subscription: int
    after: int
    next: int
    reason: str


class Receipt(Struct, frozen=True):
    """What became of published records: those that were taken are durable, the others say why they were refused."""

    taken: int
    refused: list[Refused]


class Status(Struct, frozen=True):
    """How a client is doing. ``state`` is connecting, connected, waiting (to try again) or closed."""

    state: str
    url: str
    broker: str | None
    user: str | None
    subscriptions: int
    pending: int
    connects: int
    moves: int
    duplicates: int
    gaps: int
    problem: str
