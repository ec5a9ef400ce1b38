"""Issues the tickets with which subscribers connect to brokers, and remembers whom each broker may report."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.coordinator.core.members import Member
from tocsin.wire.tickets import Ticket, key_for, sign

#: Seconds after the end of a ticket until which its subscriber may be reported: clocks differ, and a report takes time.
GRACE = 60.0


class Tickets:
    """``wall_clock`` dates the tickets, ``nonce`` makes each unique; the driver provides both."""

    def __init__(self, secret: bytes, wall_clock: Callable[[], float], nonce: Callable[[], str]) -> None:
        self._secret, self._wall_clock, self._nonce = secret, wall_clock, nonce
        self._expected: dict[str, dict[int, float]] = {}  # subscriber: broker: time until which it may arrive

    def issue(self, subscriber: str, member: Member, seconds: float, now: float) -> str:
        self.expect(subscriber, member, seconds, now)
        ticket = Ticket(subscriber, member.name, self._wall_clock() + seconds, self._nonce())
        return sign(ticket, key_for(self._secret, member.name, member.incarnation))

    def expect(self, subscriber: str, member: Member, seconds: float, now: float) -> None:
        """The broker of the subscriber has sent it there, with a ticket of the other broker's own."""
        self._expected.setdefault(subscriber, {})[member.number] = now + seconds + GRACE

    def expects(self, subscriber: str, member: Member, now: float) -> bool:
        """Whether the coordinator has sent this subscriber there."""
        return self._expected.get(subscriber, {}).get(member.number, -1.0) >= now

    def expire(self, now: float) -> None:
        for name, brokers in list(self._expected.items()):
            if max(brokers.values()) < now:
                del self._expected[name]
