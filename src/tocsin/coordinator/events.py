"""What can happen to the coordinator, and what its state machine asks its driver to do."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

from msgspec import Struct

from tocsin.errors import TocsinError
from tocsin.wire.reports import LoadReport, Registration, Request

Call = Hashable


class BrokerRow(Struct, frozen=True):
    """What is remembered of a broker."""

    name: str
    url: str
    capacity: float
    most: int
    lat: float | None = None
    lon: float | None = None
    draining: bool = False
    identity: str = ""  # a hash of what only the broker knows


# -- events; those with a ``call`` are answered by one Reply or Refuse


class Restored(Struct, frozen=True):
    """The coordinator starts again, with what it remembers."""

    brokers: list[BrokerRow]


class Register(Struct, frozen=True):
    call: Call
    registration: Registration


class Report(Struct, frozen=True):
    call: Call
    broker: str
    token: str
    report: LoadReport


class Leave(Struct, frozen=True):
    """A broker stops, and says so."""

    call: Call
    broker: str
    token: str


class Place(Struct, frozen=True):
    call: Call
    request: Request


class Drain(Struct, frozen=True):
    call: Call
    broker: str
    undo: bool = False


class Forget(Struct, frozen=True):
    """A broker that will not come back."""

    call: Call
    broker: str


class Plan(Struct, frozen=True):
    """What would be moved now?"""

    call: Call


class Topology(Struct, frozen=True):
    call: Call


class Tick(Struct, frozen=True):
    """Time has passed; about once a second."""


Event = Restored | Register | Report | Leave | Place | Drain | Forget | Plan | Topology | Tick


# -- instructions


class Reply(Struct, frozen=True):
    call: Call
    body: Any


class Refuse(Struct, frozen=True):
    call: Call
    error: TocsinError


class KeepBroker(Struct, frozen=True):
    row: BrokerRow


class DropBroker(Struct, frozen=True):
    name: str


class Note(Struct, frozen=True):
    """Something for the log of decisions."""

    kind: Literal["joined", "died", "returned", "draining", "undrained", "forgotten", "move", "placed"]
    text: str
    subscriber: str = ""
    source: str = ""
    target: str = ""


class Sample(Struct, frozen=True):
    """A look at the balance, for the history."""

    mean: float
    maximum: float
    cov: float
    bound: float
    brokers: dict[str, tuple[float, float, int]]  # load in, load out, subscribers
    pending: int


Instruction = Reply | Refuse | KeepBroker | DropBroker | Note | Sample
