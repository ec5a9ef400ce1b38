"""Events of the coordinator's state machine, and the instructions that it returns to its driver."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

from msgspec import Struct

from tocsin.balancing.decisions import Plan
from tocsin.balancing.plan_request import PlanRequest
from tocsin.config import Components
from tocsin.errors import TocsinError
from tocsin.wire.reports import BrokerRequest, LoadReport, Registration

Call = Hashable


class BrokerRow(Struct, frozen=True):
    """A registered broker, as the store keeps it."""

    name: str
    url: str
    capacity: float
    max_subscribers: int
    lat: float | None = None
    lon: float | None = None
    draining: bool = False
    key: str = ""  # the broker's public key; no broker with another one gets its name


class Choice(Struct, frozen=True):
    """Settings chosen at run time to replace ``configured``; void once the configuration differs from that."""

    strategy: str
    settings: dict[str, float | str]
    placement: str
    configured: tuple[str, dict[str, float | str], str]
    components: Components = {}
    configured_components: Components = {}


# -- events


class Request(Struct, frozen=True):
    """Leads to one Reply or Refuse."""

    call: Call


class Restored(Struct, frozen=True):
    """The coordinator starts with the contents of its store."""

    brokers: list[BrokerRow]
    choice: Choice | None = None


class Register(Request, frozen=True):
    registration: Registration


class Report(Request, frozen=True):
    broker: str
    token: str
    report: LoadReport


class Leave(Request, frozen=True):
    """A broker stops."""

    broker: str
    token: str


class Place(Request, frozen=True):
    request: BrokerRequest


class Drain(Request, frozen=True):
    broker: str
    undo: bool = False


class Forget(Request, frozen=True):
    """A broker will not come back."""

    broker: str


class Reconfigure(Request, frozen=True):
    """Use another strategy with these settings and components, or another placement; None keeps the present one."""

    strategy: str | None = None
    settings: dict[str, float | str] = {}
    placement: str | None = None
    components: Components = {}


class ShowPlan(Request, frozen=True):
    """Show the plan of now without carrying it out."""


class PlanReady(Struct, frozen=True):
    """The result of a RequestPlan; None if planning failed."""

    number: int
    plan: Plan | None


class ShowTopology(Request, frozen=True):
    """Brokers, load, balance and migrations."""


class ListBrokers(Request, frozen=True):
    """The brokers that accept subscribers, for clients that measure round trips."""


class Tick(Struct, frozen=True):
    """About once a second."""


Event = Restored | Request | PlanReady | Tick


# -- instructions


class Reply(Struct, frozen=True):
    call: Call
    body: Any


class Refuse(Struct, frozen=True):
    call: Call
    error: TocsinError


class SaveBroker(Struct, frozen=True):
    row: BrokerRow


class DeleteBroker(Struct, frozen=True):
    name: str


class SaveChoice(Struct, frozen=True):
    """None: use the configuration again."""

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
    "deferred",
    "migration",
    "refused",
    "order",
    "strategy",
    "placement",
]


class Note(Struct, frozen=True):
    """An entry of the log of decisions."""

    kind: NoteKind
    text: str
    subscriber: str = ""
    source: str = ""
    target: str = ""


class Sample(Struct, frozen=True):
    """The balance at one moment, for the history."""

    mean: float
    maximum: float
    cov: float
    bound: float
    brokers: dict[str, tuple[float, float, int]]  # load in, load out, subscribers
    pending: int


class RequestPlan(Struct, frozen=True):
    """Make a plan and return it as a PlanReady; the planner may change the request."""

    number: int
    request: PlanRequest


Instruction = Reply | Refuse | SaveBroker | DeleteBroker | SaveChoice | Note | Sample | RequestPlan
