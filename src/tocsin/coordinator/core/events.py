"""What can happen to the coordinator, and what its state machine asks its driver to do."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

from msgspec import Struct

from tocsin.balancing.decisions import Plan as BalancePlan
from tocsin.balancing.plan_request import PlanRequest
from tocsin.errors import TocsinError
from tocsin.wire.reports import BrokerRequest, LoadReport, Registration

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


class Choice(Struct, frozen=True):
    """What was chosen at run time, instead of ``configured``: if the configuration says something else, that counts."""

    strategy: str
    settings: dict[str, float | str]
    placement: str
    configured: tuple[str, dict[str, float | str], str]


# -- events; those with a ``call`` are answered by one Reply or Refuse


class Restored(Struct, frozen=True):
    """The coordinator starts again, with what it remembers."""

    brokers: list[BrokerRow]
    choice: Choice | None = None


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
    request: BrokerRequest


class Drain(Struct, frozen=True):
    call: Call
    broker: str
    undo: bool = False


class Forget(Struct, frozen=True):
    """A broker that will not come back."""

    call: Call
    broker: str


class Switch(Struct, frozen=True):
    """Another strategy with these settings, or another placement; None leaves it."""

    call: Call
    strategy: str | None = None
    settings: dict[str, float | str] = {}
    placement: str | None = None


class Plan(Struct, frozen=True):
    """What would be moved now?"""

    call: Call


class PlanReady(Struct, frozen=True):
    """The answer to a Ponder; without a plan if there was trouble."""

    number: int
    plan: BalancePlan | None


class Topology(Struct, frozen=True):
    call: Call


class Tick(Struct, frozen=True):
    """Time has passed; about once a second."""


Event = Restored | Register | Report | Leave | Place | Drain | Forget | Switch | Plan | PlanReady | Topology | Tick


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


class KeepChoice(Struct, frozen=True):
    """None: the configuration counts again."""

    choice: Choice | None


NoteKind = Literal[
    "joined",
    "died",
    "returned",
    "draining",
    "undrained",
    "forgotten",
    "placed",
    "plan",
    "held",
    "move",
    "refused",
    "order",
    "strategy",
    "placement",
]


class Note(Struct, frozen=True):
    """Something for the log of decisions."""

    kind: NoteKind
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


class RequestPlan(Struct, frozen=True):
    """Work out a plan, for as long as it takes, and bring it as a Pondered; the question belongs to who answers it."""

    number: int
    question: PlanRequest


Instruction = Reply | Refuse | KeepBroker | DropBroker | KeepChoice | Note | Sample | RequestPlan
