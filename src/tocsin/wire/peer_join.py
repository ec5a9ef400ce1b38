"""The messages with which a broker joins another one, to balance with it."""

from __future__ import annotations

from msgspec import Struct

from tocsin.wire.join import Join, Joined
from tocsin.wire.reports import Name, PeerAddress


class PeerJoin(Struct, frozen=True, forbid_unknown_fields=True):
    """``join`` is signed for the address of the inner port."""

    broker: Name
    address: PeerAddress
    join: Join


class PeerJoined(Struct, frozen=True):
    """The answer: who the other broker is."""

    broker: Name
    address: PeerAddress
    joined: Joined
