"""What can be out of balance. A criterion has a name, and a way to read it from the loads of all brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tocsin.balancing.arrays import Floats
from tocsin.balancing.load import Load


@dataclass(frozen=True)
class Criterion:
    name: str
    measure: Callable[[Load], Floats]


#: The papers' F: bytes fetched and delivered per second.
VOLUME = Criterion("volume", lambda load: load.loads.F)
INCOMING = Criterion("incoming", lambda load: load.loads.I)
OUTGOING = Criterion("outgoing", lambda load: load.loads.O)
CONNECTIONS = Criterion("connections", lambda load: load.count.astype(float))

CRITERIA = {criterion.name: criterion for criterion in (VOLUME, INCOMING, OUTGOING, CONNECTIONS)}
