"""What hosts send each other. All of it is plain data, so the simulated network and real connections carry the same."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tocsin.balancing.host.actions import AnyAction, Peer
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.load_model import Member


class Key(msgspec.Struct, frozen=True, tag=True):
    """An address in a key space: the peer that owns this key."""

    value: int


Recipient: TypeAlias = Peer | Key


class HostMessage(msgspec.Struct, frozen=True, tag=True):
    """Base of all messages between hosts."""


class Push(HostMessage, frozen=True):
    """Load information that was not requested."""

    information: tuple[LoadInformation, ...]


class Pull(HostMessage, frozen=True):
    """Asks for load information. With ``ttl`` above 0 the receiver passes it on to a random neighbour."""

    number: int
    origin: Peer
    ttl: int = 0


class Report(HostMessage, frozen=True):
    """The answer to a pull."""

    number: int
    information: tuple[LoadInformation, ...]


class Advise(HostMessage, frozen=True):
    """A peer that sees more (a directory) suggests actions; the receiver treats them as suggestions of its own."""

    criterion: str
    actions: tuple[AnyAction, ...]


class Request(HostMessage, frozen=True):
    """Opens a session: may we do this? All actions have the same executor.

    ``information``: the load of the sender, so that the receiver can compare. ``members``: of the units of each action,
    where the target has to admit them.
    """

    session: str
    criterion: str
    actions: tuple[AnyAction, ...]
    information: tuple[LoadInformation, ...] = ()
    members: tuple[tuple[Member, ...], ...] = ()


class Accept(HostMessage, frozen=True):
    """``permits``: for each action those of its members, by name."""

    session: str
    permits: tuple[dict[str, str], ...] = ()


class Decline(HostMessage, frozen=True):
    session: str
    reason: str


class Done(HostMessage, frozen=True):
    """Ends a session. ``done``: which of its actions were executed, by position."""

    session: str
    done: tuple[int, ...] = ()
    reason: str = ""


Message: TypeAlias = Push | Pull | Report | Advise | Request | Accept | Decline | Done
