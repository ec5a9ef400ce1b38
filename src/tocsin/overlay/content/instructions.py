"""What a broker of the overlay asks the shell around it to do."""

from __future__ import annotations

from msgspec import Struct

from tocsin.errors import TocsinError
from tocsin.overlay.content.messages import Message, Publication, PublicationId


class Send(Struct, frozen=True, eq=False):
    target: str
    message: Message


class Deliver(Struct, frozen=True, eq=False):
    """To a client that is attached here; ``subscriptions`` are those of its ids that match."""

    client: str
    subscriptions: tuple[str, ...]
    publication: Publication


class Gap(Struct, frozen=True, eq=False):
    """Publications for these subscriptions of a client may be lost."""

    client: str
    subscriptions: tuple[str, ...]
    reason: str


class Attached(Struct, frozen=True, eq=False):
    client: str


class Redirect(Struct, frozen=True, eq=False):
    """The client belongs at another broker. One that is attached keeps its service until it detaches."""

    client: str
    target: str


class Published(Struct, frozen=True, eq=False):
    client: str
    id: PublicationId


class Refused(Struct, frozen=True, eq=False):
    """A command of a client was wrong, and nothing was changed."""

    client: str
    error: TocsinError


class LinkRefused(Struct, frozen=True, eq=False):
    """A link to this neighbour is not possible now. No other link is affected."""

    neighbour: str
    error: TocsinError


class Discarded(Struct, frozen=True, eq=False):
    """Too many publications wait for a neighbour."""

    neighbour: str
    id: PublicationId


Instruction = Send | Deliver | Gap | Attached | Redirect | Published | Refused | LinkRefused | Discarded
