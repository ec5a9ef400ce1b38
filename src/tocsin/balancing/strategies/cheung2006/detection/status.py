"""The states of a broker and of a cluster, and the transitions of figure 3.3."""

from __future__ import annotations

from enum import Enum

from tocsin.errors import SystemFailure


class Status(Enum):
    OK = "OK"
    BUSY = "BUSY"
    UNAVAILABLE = "N/A"
    STABILIZING = "STABILIZING"


#: Of a broker (3.3a): a session begins from OK, or from overload; after it load has to become stable, unless no
#: subscriber has migrated.
LOCAL = {
    Status.OK: {Status.BUSY, Status.UNAVAILABLE},
    Status.UNAVAILABLE: {Status.BUSY, Status.STABILIZING},
    Status.BUSY: {Status.STABILIZING, Status.OK, Status.UNAVAILABLE},
    # Overload interrupts the wait, and so may a session of an overloaded broker.
    Status.STABILIZING: {Status.OK, Status.UNAVAILABLE, Status.BUSY},
}
#: Of a cluster (3.3b).
GLOBAL = {
    Status.OK: {Status.BUSY, Status.UNAVAILABLE},
    Status.UNAVAILABLE: {Status.BUSY, Status.OK},
    Status.BUSY: {Status.OK, Status.UNAVAILABLE},
}


class State:
    """One of the two machines. ``since``: when it came to its present status."""

    def __init__(self, transitions: dict[Status, set[Status]], now: float = 0.0) -> None:
        self._transitions = transitions
        self.status, self.since = Status.OK, now

    def change(self, status: Status, now: float) -> None:
        if status is self.status:
            return
        if status not in self._transitions[self.status]:
            raise SystemFailure(f"a broker does not go from {self.status.value} to {status.value}")
        self.status, self.since = status, now
