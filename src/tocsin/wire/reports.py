"""What brokers and the coordinator say to each other: a broker reports, and the answer says what to do."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

#: Part of a path, so without a slash.
Name = Annotated[str, Meta(min_length=1, max_length=128, pattern="^[^/]+$")]


class Registration(Struct, frozen=True, forbid_unknown_fields=True):
    """``registerbroker``. ``secret`` is what the operator gave to both."""

    broker: Name
    url: Annotated[str, Meta(min_length=1, max_length=2_000)]
    secret: str = ""
    identity: Annotated[
        str, Meta(max_length=128, description="known to this broker only: who has registered a name keeps it")
    ] = ""
    capacity: Annotated[float, Meta(gt=0)] = 1.0
    most: Annotated[int, Meta(ge=1)] = 2**31 - 1
    lat: Annotated[float, Meta(ge=-90, le=90)] | None = None
    lon: Annotated[float, Meta(ge=-360, le=360)] | None = None
    boot: Annotated[
        str, Meta(max_length=128, description="another one each time it is started: tickets of before are void")
    ] = ""


class Registered(Struct, frozen=True):
    """``key`` (hex) checks tickets; ``token`` goes with every report, so that no broker speaks for another."""

    broker: str
    key: str
    token: str
    interval: Annotated[float, Meta(description="seconds between two reports")]


class FailedMigration(Struct, frozen=True):
    """A subscriber that did not follow a move."""

    ticket: str
    reason: str


class LoadReport(Struct, frozen=True, forbid_unknown_fields=True):
    """What has changed since the report before, or everything (``full``)."""

    number: int
    full: bool = False
    subscribers: Annotated[dict[str, list[int]], Meta(description="subscriber: its BE subscriptions")] = field(
        default_factory=dict
    )
    left: list[str] = field(default_factory=list)
    rates: Annotated[
        dict[int, Annotated[float, Meta(ge=0)]], Meta(description="BE subscription: λ in bytes a second")
    ] = field(default_factory=dict)
    outcomes: list[FailedMigration] = field(default_factory=list)
    connections: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    deliveries: int = 0
    waiting: int = 0
    lagging: int = 0
    fresh: Annotated[
        list[int], Meta(description="those of `rates` that the broker has only begun to count, so that λ is too low")
    ] = field(default_factory=list)


class MigrationOrder(Struct, frozen=True):
    """Send this subscriber to that broker."""

    subscriber: str
    broker: str
    url: str
    ticket: str


class ReportReply(Struct, frozen=True):
    """Answers a report. ``full``: the coordinator has forgotten and wants everything the next time."""

    number: int
    full: bool = False
    moves: list[MigrationOrder] = field(default_factory=list)
    drop: Annotated[list[str], Meta(description="subscribers that are elsewhere; their connection here is old")] = (
        field(default_factory=list)
    )


class BrokerRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """``requestbroker``."""

    subscriber: Annotated[str, Meta(min_length=8, max_length=64, pattern="^[A-Za-z0-9_-]+$")]
    lat: Annotated[float, Meta(ge=-90, le=90)] | None = None
    lon: Annotated[float, Meta(ge=-360, le=360)] | None = None
    distances: Annotated[
        dict[str, float], Meta(max_length=1_000, description="broker: measured round trip, milliseconds")
    ] = field(default_factory=dict)
    avoid: Annotated[list[Name], Meta(max_length=100, description="brokers that did not answer just now")] = field(
        default_factory=list
    )


class User(Struct, frozen=True, forbid_unknown_fields=True):
    """``registeruser``: the same user gets the same subscriber, on whatever device it comes back."""

    user: Annotated[str, Meta(min_length=1, max_length=128)]
    password: Annotated[str, Meta(min_length=8, max_length=256)]


class UserRegistered(Struct, frozen=True):
    user: str
    subscriber: str


class Placement(Struct, frozen=True):
    """Answers ``requestbroker``."""

    broker: str
    url: str
    ticket: str
