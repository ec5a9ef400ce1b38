"""Subscribers on their way to another broker: each one leaves, refuses, or stays because its time is up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, field

#: Seconds for a migration: longer than a client takes before it gives up.
TIMEOUT = 45.0


class Departure(Struct, eq=False):
    """The subscribers of one action, each with its ticket."""

    session: str
    position: int
    target: str
    deadline: float
    tickets: dict[str, str] = field(default_factory=dict)
    left: int = 0


class Departures:
    def __init__(self) -> None:
        self._open: list[Departure] = []
        self._by_subscriber: dict[str, Departure] = {}

    def __contains__(self, subscriber: str) -> bool:
        return subscriber in self._by_subscriber

    def __len__(self) -> int:
        return len(self._by_subscriber)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._by_subscriber))

    def begin(self, session: str, position: int, target: str, tickets: Iterable[tuple[str, str]], now: float) -> None:
        found = Departure(session, position, target, now + TIMEOUT, dict(tickets))
        self._open.append(found)
        self._by_subscriber |= dict.fromkeys(found.tickets, found)

    def refused(self, ticket: str) -> bool:
        """The subscriber stays. False: this is not a ticket of a departure."""
        for departure in self._open:
            for subscriber, its in departure.tickets.items():
                if its == ticket:
                    self._end(departure, subscriber)
                    return True
        return False

    def _end(self, departure: Departure, subscriber: str) -> None:
        del departure.tickets[subscriber]
        if self._by_subscriber.get(subscriber) is departure:
            del self._by_subscriber[subscriber]

    def ended(self, here: Callable[[str], bool], now: float) -> list[Departure]:
        """Those in which no subscriber is on its way any more."""
        for departure in self._open:
            for subscriber in list(departure.tickets):
                gone = not here(subscriber)
                departure.left += gone
                if gone or now >= departure.deadline:
                    self._end(departure, subscriber)
        found = [each for each in self._open if not each.tickets]
        self._open = [each for each in self._open if each.tickets]
        return found
