"""What happens to the machines of brokers and heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tocsin.balancing.strategies.cheung2006.mediation.messages import Message


@dataclass(frozen=True)
class Tick:
    pass


@dataclass(frozen=True)
class Received:
    sender: str
    message: Message


@dataclass(frozen=True)
class Arrived:
    """A migrating subscriber has subscribed here, with what its order said."""

    subscriber: str
    session: str
    total: int


@dataclass(frozen=True)
class PeerLost:
    peer: str


Event: TypeAlias = Tick | Received | Arrived | PeerLost
