"""An attribute of a schema, whose values are placed on its hub in their own order."""

from __future__ import annotations

from msgspec import Struct

BITS = 48


class Attribute(Struct, frozen=True):
    """A number from ``low`` up to ``high``. Values outside go to the ends."""

    name: str
    low: float
    high: float

    def place(self, value: float) -> int:
        share = (value - self.low) / (self.high - self.low)
        return min(max(int(share * (1 << BITS)), 0), (1 << BITS) - 1)
