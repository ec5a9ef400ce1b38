"""How the coordinator gets the load of brokers: they push, and it says when each pushes again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tocsin.errors import UserError


class CentralExchanger(Protocol):
    """``interval`` is the configuration's; ``migrating``: migrations from or to the broker are pending."""

    def next_report(self, interval: float, *, migrating: bool) -> float:
        """Seconds until the broker's next report."""
        ...


@dataclass(frozen=True)
class Reports:
    """Brokers push their load to the coordinator every `every` seconds; 0: the `interval` of the configuration."""

    every: float = 0.0

    def __post_init__(self) -> None:
        check(every=self.every)

    def next_report(self, interval: float, *, migrating: bool) -> float:
        return self.every or interval


@dataclass(frozen=True)
class PacedReports:
    """Brokers push every `busy` seconds while subscribers migrate from or to them, and else every `calm` seconds."""

    busy: float = 0.5
    calm: float = 4.0

    def __post_init__(self) -> None:
        check(busy=self.busy, calm=self.calm)
        if not 0.0 < self.busy <= self.calm:
            raise UserError(f"busy {self.busy:g} is not between 0 and calm {self.calm:g}", hint="give 0 < busy ≤ calm")

    def next_report(self, interval: float, *, migrating: bool) -> float:
        return self.busy if migrating else self.calm


def check(**seconds: float) -> None:
    for name, value in seconds.items():
        if not 0.0 <= value < float("inf"):
            raise UserError(f"{name} is {value!r}, which is not a number of seconds", hint="give 0 or more")


def check_longest(exchanger: CentralExchanger, interval: float, gone_after: float) -> None:
    """A broker must not look dead between two reports. The configuration's own interval is not judged here."""
    longest = max(exchanger.next_report(interval, migrating=each) for each in (False, True))
    if not 0.0 < longest <= max(interval, gone_after / 2):
        hint = f"give at most {gone_after / 2:g} s, half of gone_after"
        raise UserError(f"brokers would report every {longest:g} s and are dead after {gone_after:g} s", hint=hint)
