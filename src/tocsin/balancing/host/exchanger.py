"""Exchangers: who gets or is asked for load information, and when there is news to send.

``exchange_load_information`` returns messages instead of answers, because a host never waits: what a pull brings
arrives as a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.messages import Pull, Push, Recipient
from tocsin.balancing.host.scope import Scope
from tocsin.errors import UserError


class Exchanger(Protocol):
    """One exchange: ``recipients`` first, then ``exchange_load_information`` with them.

    A pull is numbered by the manager: an exchanger leaves its number 0.
    """

    def recipients(self, scope: Scope) -> Sequence[Recipient]: ...

    def exchange_load_information(
        self, scope: Scope, recipients: Sequence[Recipient], information: Sequence[LoadInformation]
    ) -> Iterator[tuple[Recipient, Push | Pull]]: ...


class Reporter(Protocol):
    """An exchanger that answers pulls with more than the load of its own peer."""

    def reported(self, scope: Scope, own: Sequence[LoadInformation]) -> Sequence[LoadInformation]: ...


@dataclass
class Silent:
    """Sends nothing by itself: detectors rely on thresholds given at deployment (the paper's *absolute* version)."""

    def recipients(self, scope: Scope) -> Sequence[Recipient]:
        """None, but for those that a balancer asks."""
        return ()

    def exchange_load_information(
        self, scope: Scope, recipients: Sequence[Recipient], information: Sequence[LoadInformation]
    ) -> Iterator[tuple[Recipient, Push | Pull]]:
        return iter(())


@dataclass
class PushToNeighbours:
    """Pushes to all immediate neighbours, as EventCloud's *relative* version does."""

    def recipients(self, scope: Scope) -> Sequence[Recipient]:
        """The immediate neighbours."""
        return scope.neighbours

    def exchange_load_information(
        self, scope: Scope, recipients: Sequence[Recipient], information: Sequence[LoadInformation]
    ) -> Iterator[tuple[Recipient, Push | Pull]]:
        return ((each, Push(tuple(information))) for each in recipients)


@dataclass
class PullFromRandom:
    """Asks ``count`` random neighbours, or peers ``ttl`` hops further on."""

    count: int = 1
    ttl: int = 0

    def __post_init__(self) -> None:
        if self.count < 1 or self.ttl < 0:
            raise UserError(f"{self.count} peers with a TTL of {self.ttl}", hint="1 or more, with 0 or more hops")

    def recipients(self, scope: Scope) -> Sequence[Recipient]:
        """Random neighbours, or peers some hops further on, and those that a balancer asks."""
        return scope.rng.sample(list(scope.neighbours), min(self.count, len(scope.neighbours)))

    def exchange_load_information(
        self, scope: Scope, recipients: Sequence[Recipient], information: Sequence[LoadInformation]
    ) -> Iterator[tuple[Recipient, Push | Pull]]:
        return ((each, Pull(0, scope.peer, self.ttl)) for each in recipients)
