"""Times and sizes of a key space."""

from __future__ import annotations

from msgspec import Struct


class Settings(Struct, frozen=True):
    """``copies`` of every item, the owner's included. Times are in seconds."""

    copies: int = 3
    successors: int = 5
    period: float = 1.0
    timeout: float = 0.6
    attempts: int = 3
    lookup_timeout: float = 1.5
    lookup_attempts: int = 8
    hop_limit: int = 1000
    #: Copies that no owner has confirmed for this long are handed over to the owner.
    stray_after: float = 6.0
    #: Peers remembered, alive or not, to find each other again after a partition.
    acquaintances: int = 32
