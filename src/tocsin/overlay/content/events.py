"""What happens to a broker of the overlay, and what its clients and its operator command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from tocsin.content import Advertisement, Condition
from tocsin.overlay.content.messages import Message

Kind = Literal["publisher", "subscriber"]


class Tick(Struct, frozen=True, eq=False):
    """Time has passed; a few of them each second."""


class Received(Struct, frozen=True, eq=False):
    """From the broker of this name. A message may be lost, late, or arrive twice."""

    source: str
    message: Message


# -- of the operator


class Connect(Struct, frozen=True, eq=False):
    """To a neighbour, again and again until it accepts or Disconnect ends it."""

    neighbour: str


class Disconnect(Struct, frozen=True, eq=False):
    """Ends a link for good: the neighbour is not accepted either until Connect."""

    neighbour: str


class Broken(Struct, frozen=True, eq=False):
    """The connection of a link has ended: a new session begins at once, without waiting for silence."""

    neighbour: str


class Leave(Struct, frozen=True, eq=False):
    """Ends all links; new ones are refused."""


class Overload(Struct, frozen=True, eq=False):
    """Whether new subscribers should be sent elsewhere."""

    overloaded: bool


# -- of clients


class Attach(Struct, frozen=True, eq=False):
    """``control``: vital to the brokers themselves, so that it stays where it is. ``redirects`` until here."""

    client: str
    kind: Kind
    control: bool = False
    redirects: int = 0


class Detach(Struct, frozen=True, eq=False):
    """The connection has ended: all that the client announced is withdrawn."""

    client: str


class AdvertiseFeed(Struct, frozen=True, eq=False):
    client: str
    id: str
    feed: str
    advertisement: Advertisement


class SubscribeFeed(Struct, frozen=True, eq=False):
    client: str
    id: str
    feed: str
    condition: Condition


class Withdraw(Struct, frozen=True, eq=False):
    """An advertisement or a subscription."""

    client: str
    id: str


class Publish(Struct, frozen=True, eq=False):
    """Under an advertisement of the client. ``data`` is the JSON that ``values`` were read from."""

    client: str
    advertisement: str
    values: Mapping[str, Any]
    data: bytes = b""


Operator = Connect | Disconnect | Broken | Leave | Overload
OfClient = Attach | Detach | AdvertiseFeed | SubscribeFeed | Withdraw | Publish
Event = Tick | Received | Operator | OfClient
