"""The messages between brokers, clients and the coordinator: a broker reports, and the reply orders migrations."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from tocsin.wire.join import Join, Joined
from tocsin.wire.messages import LEAST_SUBSCRIBER

#: Part of a path, so without a slash.
Name = Annotated[str, Meta(min_length=1, max_length=128, pattern="^[^/]+$")]


class Registration(Struct, frozen=True, forbid_unknown_fields=True):
    """``registerbroker``. ``join``: required if the coordinator has a join secret."""

    broker: Name
    url: Annotated[str, Meta(min_length=1, max_length=2_000)]
    join: Annotated[
        Join | None, Meta(description="the broker's key: only a broker with this key can register its name again")
    ] = None
    capacity: Annotated[float, Meta(gt=0)] = 1.0
    max_subscribers: Annotated[int, Meta(ge=1)] = 2**31 - 1
    lat: Annotated[float, Meta(ge=-90, le=90)] | None = None
    lon: Annotated[float, Meta(ge=-360, le=360)] | None = None
    incarnation: Annotated[
        str, Meta(max_length=128, description="changes with each start of the broker: earlier tickets become void")
    ] = ""

    inside: Annotated[str, Meta(max_length=2_000, description="its inner port, for other brokers")] = ""
    balancing: Annotated[str, Meta(max_length=32, description="who balances, in the broker's configuration")] = (
        "coordinator"
    )

    @property
    def key(self) -> str:
        return self.join.key if self.join is not None else ""


class Registered(Struct, frozen=True):
    """``key`` (hex) verifies tickets; ``token`` belongs to this registration, and every report has it."""

    broker: str
    key: str
    token: str
    interval: Annotated[float, Meta(description="seconds between two reports")]
    joined: Annotated[Joined | None, Meta(description="the coordinator's own key, if the broker sent one")] = None


class FailedMigration(Struct, frozen=True):
    """A subscriber that did not migrate."""

    ticket: str
    reason: str


class PeerAddress(Struct, frozen=True):
    """How other brokers and their subscribers reach a broker."""

    url: Annotated[str, Meta(min_length=1, max_length=2_000, description="for subscribers")]
    inside: Annotated[str, Meta(min_length=1, max_length=2_000, description="its inner port, for brokers")]


class LoadReport(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes since the previous report, or everything (``full``)."""

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
        list[int], Meta(description="those of `rates` that the broker has only begun to measure, so that λ is too low")
    ] = field(default_factory=list)
    sent: Annotated[
        dict[str, str], Meta(description="subscriber: the broker that this one has sent it to, by agreement of the two")
    ] = field(default_factory=dict)
    role: Annotated[str, Meta(max_length=16, description="in the overlay: `head`, `edge` or `both`")] = ""
    links: Annotated[
        dict[str, tuple[int, int]],
        Meta(description="neighbour: messages that came over the link since the broker started, and that went"),
    ] = field(default_factory=dict)


class MigrationOrder(Struct, frozen=True):
    """Migrate this subscriber to that broker."""

    subscriber: str
    broker: str
    url: str
    ticket: str


class ReportReply(Struct, frozen=True):
    """The reply to a report. ``full``: the next report has to be full."""

    number: int
    full: bool = False
    migrations: list[MigrationOrder] = field(default_factory=list)
    drop: Annotated[
        list[str], Meta(description="subscribers that are at another broker; close their outdated connection")
    ] = field(default_factory=list)
    alternatives: Annotated[
        dict[str, str],
        Meta(description="addresses of other brokers, for the clients; where nothing is said, as before"),
    ] = field(default_factory=dict)
    peers: Annotated[
        dict[str, PeerAddress],
        Meta(description="all other brokers, if they balance among themselves; where nothing is said, as before"),
    ] = field(default_factory=dict)
    interval: Annotated[float, Meta(ge=0, description="seconds until the next report; 0: as registered")] = 0.0


class BrokerRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """``requestbroker``."""

    subscriber: Annotated[
        str,
        Meta(
            min_length=LEAST_SUBSCRIBER,
            max_length=64,
            pattern="^[A-Za-z0-9_-]+$",
            description="as in `hello`: a secret of the client",
        ),
    ]
    lat: Annotated[float, Meta(ge=-90, le=90)] | None = None
    lon: Annotated[float, Meta(ge=-360, le=360)] | None = None
    distances: Annotated[
        dict[str, Annotated[float, Meta(ge=0)]],
        Meta(max_length=1_000, description="broker: measured round trip in milliseconds"),
    ] = field(default_factory=dict)
    avoid: Annotated[list[Name], Meta(max_length=100, description="brokers that did not answer")] = field(
        default_factory=list
    )


class Placement(Struct, frozen=True):
    """The reply to ``requestbroker``."""

    broker: str
    url: str
    ticket: str


class BrokerAddress(Struct, frozen=True):
    """A broker that accepts subscribers."""

    broker: str
    url: Annotated[str, Meta(description="as in the reply to `requestbroker`")]
    lat: float | None = None
    lon: float | None = None


class BrokerList(Struct, frozen=True):
    """``GET /brokers``: for clients that measure round trips."""

    brokers: list[BrokerAddress]
