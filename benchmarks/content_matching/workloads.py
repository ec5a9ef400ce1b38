"""Subscriptions and publications of the content benchmarks: the thesis' stock quotes, and a harder mix."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

from tocsin.cluster.model import Column
from tocsin.content import Attributes, Condition
from tocsin.content.language import expressions as ex

SEED = 20061116
SYMBOLS = 500
DAYS = 250


class Stock:
    """Table 5.1 of the thesis: six templates with their probabilities, values of quotes of the same stock."""

    name = "stock"

    def __init__(self) -> None:
        self.attributes = Attributes.of_columns(
            [Column(name, "string") for name in ("class", "symbol", "date")]
            + [Column(name, "double") for name in ("open", "high", "low", "close")]
            + [Column("volume", "bigint")]
        )
        dice = random.Random(SEED)
        self.quotes = [self._quotes(dice, f"S{number:03}") for number in range(SYMBOLS)]

    @staticmethod
    def _quotes(dice: random.Random, symbol: str) -> list[dict[str, Any]]:
        price, volume = dice.uniform(5, 200), dice.lognormvariate(12, 1.5)
        found = []
        for day in range(DAYS):
            price *= dice.lognormvariate(0, 0.02)
            opened, closed = price * dice.uniform(0.98, 1.02), price * dice.uniform(0.98, 1.02)
            high, low = max(opened, closed) * dice.uniform(1, 1.02), min(opened, closed) * dice.uniform(0.98, 1)
            row = {"open": opened, "high": high, "low": low, "close": closed}
            quote = {name: round(value, 2) for name, value in row.items()}
            traded = round(volume * dice.lognormvariate(0, 0.5))
            found.append({"class": "STOCK", "symbol": symbol, **quote, "volume": traded, "date": f"day-{day}"})
        return found

    def publications(self, count: int) -> list[dict[str, Any]]:
        dice = random.Random(SEED + 1)
        return [dice.choice(dice.choice(self.quotes)) for _ in range(count)]

    def conditions(self) -> Iterator[Condition]:
        dice = random.Random(SEED + 2)
        stock = ex.Comparison("class", "=", "STOCK")
        while True:
            quote = dice.choice(dice.choice(self.quotes))
            symbol = ex.Comparison("symbol", "=", quote["symbol"])
            volume = ex.Comparison("volume", ">", quote["volume"])
            high, low = ex.Comparison("high", ">", quote["high"]), ex.Comparison("low", "<", quote["low"])
            (parts,) = dice.choices(
                [
                    (stock, symbol, high),
                    (stock, symbol, low),
                    (stock, symbol, volume),
                    (stock, symbol),
                    (stock, volume),
                    (stock,),
                ],
                [20, 20, 20, 34, 5, 1],
            )
            yield Condition(ex.conjunction(list(parts)), self.attributes)


class Mixed:
    """1 to 10 predicates over 40 attributes: texts by Zipf (equality, prefix, suffix), whole numbers, and ranges."""

    name = "mixed"
    TEXTS, WHOLE, REAL = 15, 15, 10
    WORDS = 1_000

    def __init__(self) -> None:
        self.texts = [f"t{number}" for number in range(self.TEXTS)]
        self.whole = [f"n{number}" for number in range(self.WHOLE)]
        self.real = [f"x{number}" for number in range(self.REAL)]
        self.attributes = Attributes.of_columns(
            [
                *(Column(name, "string") for name in self.texts),
                *(Column(name, "int") for name in self.whole),
                *(Column(name, "double") for name in self.real),
            ]
        )
        dice = random.Random(SEED)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.words = ["".join(dice.choices(letters, k=dice.randint(4, 9))) for _ in range(self.WORDS)]
        self.weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(self.WORDS)))

    def publications(self, count: int) -> list[dict[str, Any]]:
        dice = random.Random(SEED + 1)
        return [
            {
                **dict(zip(self.texts, dice.choices(self.words, cum_weights=self.weights, k=self.TEXTS), strict=True)),
                **{name: dice.randrange(1_000) for name in self.whole},
                **{name: dice.random() for name in self.real},
            }
            for _ in range(count)
        ]

    def conditions(self) -> Iterator[Condition]:
        dice = random.Random(SEED + 2)
        names = [*self.texts, *self.whole, *self.real]
        while True:
            chosen = dice.sample(names, dice.randint(1, 10))
            yield Condition(ex.conjunction([self._predicate(dice, name) for name in chosen]), self.attributes)

    def _predicate(self, dice: random.Random, name: str) -> ex.Expression:
        if name[0] == "t":
            (word,) = dice.choices(self.words, cum_weights=self.weights)
            kind = dice.random()
            if kind < 0.6:
                return ex.Comparison(name, "=", word)
            return ex.Like(name, f"{word[:3]}%" if kind < 0.8 else f"%{word[-3:]}")
        top = 1_000 if name[0] == "n" else 1.0
        value: Any = dice.randrange(1_000) if name[0] == "n" else dice.random()
        kind = dice.random()
        if kind < 0.4 and name[0] == "n":
            return ex.Comparison(name, "=", value)
        if kind < 0.7:
            width = dice.choice([0.01, 0.05, 0.2]) * top
            return ex.Between(name, value, value + (round(width) if name[0] == "n" else width))
        return ex.Comparison(name, dice.choice([">", "<"]), value)
