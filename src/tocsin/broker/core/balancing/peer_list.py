"""The other brokers that this one knows: from the coordinator, from the configuration, or from before a restart."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tocsin.wire.reports import PeerAddress

#: Other brokers that a broker remembers.
MOST = 1_000
#: Seconds after a failure until a broker is tried again: at first, and at most.
RETRY = (2.0, 60.0)
#: Seconds without any answer after which a broker is forgotten.
FORGOTTEN = 86_400.0


class Failures(Struct):
    number: int
    since: float
    until: float


class PeerList:
    def __init__(self, name: str) -> None:
        self.name = name
        self.addresses: dict[str, PeerAddress] = {}
        self._failures: dict[str, Failures] = {}

    def learn(self, found: Mapping[str, PeerAddress]) -> bool:
        """True if something has changed. What is not in it may still exist: a coordinator may have just started."""
        before = dict(self.addresses)
        for name, address in found.items():
            if name != self.name and (name in self.addresses or len(self.addresses) < MOST):
                if self.addresses.get(name) != address:
                    self._failures.pop(name, None)
                self.addresses[name] = address
        return self.addresses != before

    def failed(self, name: str, now: float) -> bool:
        """A message could not be sent. True if the broker is forgotten by now."""
        if name not in self.addresses:
            return False
        before = self._failures.get(name, Failures(0, now, now))
        wait = min(RETRY[0] * 2**before.number, RETRY[1])
        self._failures[name] = Failures(min(before.number + 1, 10), before.since, now + wait)
        if now - before.since < FORGOTTEN:
            return False
        del self.addresses[name], self._failures[name]
        return True

    def answered(self, name: str) -> None:
        self._failures.pop(name, None)

    def reachable(self, now: float) -> list[str]:
        """In the order of their names. One that failed has its turn again later."""
        return [
            name for name in sorted(self.addresses) if name not in self._failures or self._failures[name].until <= now
        ]
