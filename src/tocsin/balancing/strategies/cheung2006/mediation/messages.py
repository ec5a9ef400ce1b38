"""What brokers send each other about sessions, as publications of the class LB_CONTROL with the receiver's brokerID.

They overtake other traffic, and so do PIE, the orders to subscribers, and the (un)subscriptions that follow.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tocsin.balancing.strategies.cheung2006.detection.pie import Pie
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.estimation.resources import Resources

CONTROL, LOCAL_PIE = "LB_CONTROL", "LOCAL_PIE"


def control_subscription(broker: str) -> str:
    return f"[class,eq,'{CONTROL}'],[brokerID,eq,'{broker}']"


def pie_subscription(cluster: str) -> str:
    return f"[class,eq,'{LOCAL_PIE}'],[clusterID,eq,'{cluster}']"


class Control(msgspec.Struct, frozen=True, tag=True):
    """Base of all messages to one broker. ``session`` is unique to its requester."""

    session: str


class Request(Control, frozen=True):
    """May we balance? To a broker, or from head to head about their clusters."""


class Reply(Control, frozen=True):
    """With the status OK the replying broker is reserved. Eleven fields (section 3.4.1): ``css`` and ``resources``."""

    status: Status
    css: tuple[str, ...] = ()
    resources: Resources | None = None


class Done(Control, frozen=True):
    """Ends a session. ``arrived``: the subscribers that the acceptor has now."""

    arrived: tuple[str, ...] = ()


class GlobalRequest(Control, frozen=True):
    """An overloaded edge asks its head for another cluster."""


class Join(Control, frozen=True):
    """A head orders its edge to subscribe to another cluster's local PIE."""

    cluster: str


class Leave(Control, frozen=True):
    """And to unsubscribe, and to forget what it has learned."""

    cluster: str


AnyControl: TypeAlias = Request | Reply | Done | GlobalRequest | Join | Leave
Message: TypeAlias = AnyControl | Pie
