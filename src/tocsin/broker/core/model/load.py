"""What a broker has done and what it holds: for its metrics, and for the report that the coordinator balances by."""

from __future__ import annotations

from msgspec import Struct


class Counters(Struct):
    """Since the start."""

    bytes_in: int = 0  # results from the data cluster
    bytes_out: int = 0  # to subscribers
    deliveries: int = 0  # notifications times subscribers
    notifications: int = 0
    requests: int = 0
    refusals: int = 0
    published: int = 0
    lagged: int = 0  # times a subscriber became slow
    gaps: int = 0
    closes: dict[int, int] = {}


class BESubscriptionLoad(Struct, frozen=True):
    """λ and n of one BE subscription, as the DEBS paper's load model names them."""

    subscription: int
    channel: str
    subscribers: int
    lam: float
    lam_bytes: float


class Report(Struct, frozen=True):
    """The load of a broker at a moment."""

    broker: str
    connections: int
    lagging: int
    catching_up: int
    notified: int  # executions not delivered yet
    fetches: int
    bytes_in: int
    bytes_out: int
    deliveries: int
    notifications: int
    subscriptions: list[BESubscriptionLoad]
