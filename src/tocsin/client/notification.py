"""What a client hands to the application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tocsin.wire.messages import Refused
from tocsin.wire.position import Position


class Notification(Struct, frozen=True, omit_defaults=True):
    """The results of one execution of a channel for one subscription. Iterating over it gives the results."""

    channel: str
    subscription: int
    execution: int
    results: list[Any]
    epoch: int = 0

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.execution)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __bool__(self) -> bool:
        return True  # also without results


class Gap(Struct, frozen=True):
    """Notifications after ``after`` and before ``next`` may be lost; no broker can send them any more."""

    channel: str
    subscription: int
    after: Position
    next: Position
    reason: str


class Receipt(Struct, frozen=True):
    """The accepted records are durable; the refused ones say why."""

    accepted: int
    refused: list[Refused]


class Status(Struct, frozen=True):
    """``state`` is connecting, connected, waiting (to reconnect) or closed."""

    state: str
    url: str
    broker: str | None
    user: str | None
    subscriptions: int
    pending: int
    connects: int
    migrations: int
    duplicates: int
    gaps: int
    problem: str
