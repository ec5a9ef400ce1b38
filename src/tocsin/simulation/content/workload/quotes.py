"""Stock quotes: a random walk for each symbol, with the eight attributes of the thesis."""

from __future__ import annotations

from random import Random
from typing import Any

from tocsin.content import Advertisement, Attribute, Attributes, Condition
from tocsin.content.language.domains import domain_of

FEED = "STOCK"
_TYPES = {"class": "string", "symbol": "string", "open": "double", "high": "double", "low": "double"} | {
    "close": "double",
    "volume": "bigint",
    "date": "string",
}
ATTRIBUTES = Attributes(Attribute(name, domain_of(type)) for name, type in _TYPES.items())


def advertisement(symbol: str) -> Advertisement:
    present = ",".join(f"[{name},isPresent,{0 if type != 'string' else repr('')}]" for name, type in _TYPES.items())
    text = f"[class,eq,'STOCK'],[symbol,eq,'{symbol}'],{present}"
    return Advertisement(Condition.of_padres(text, ATTRIBUTES))


class Quotes:
    def __init__(self, symbol: str, rng: Random) -> None:
        self.symbol, self._rng = symbol, rng
        self._price = rng.uniform(10.0, 100.0)
        self._day = 0

    def next(self) -> dict[str, Any]:
        rng, opened = self._rng, self._price
        self._day += 1
        self._price = max(1.0, opened * rng.uniform(0.95, 1.05))
        high, low = max(opened, self._price) * rng.uniform(1.0, 1.03), min(opened, self._price) * rng.uniform(0.97, 1.0)
        found = {"open": opened, "high": high, "low": low, "close": self._price}
        rounded = {name: round(value, 2) for name, value in found.items()}
        volume = int(rng.lognormvariate(12.0, 1.0))
        return {"class": "STOCK", "symbol": self.symbol, **rounded, "volume": volume, "date": f"day {self._day}"}
