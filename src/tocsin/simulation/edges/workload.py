"""Publishers of stock quotes and subscribers made from the six templates of Table 5.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tocsin.errors import UserError
from tocsin.simulation.content.workload.quotes import Quotes
from tocsin.simulation.random_streams import RandomStreams

#: Per cent of the subscribers, and what each subscribes to.
TEMPLATES = (
    (20, "[class,eq,'STOCK'],[symbol,eq,'{symbol}'],[high,>,{high}]"),
    (20, "[class,eq,'STOCK'],[symbol,eq,'{symbol}'],[low,<,{low}]"),
    (20, "[class,eq,'STOCK'],[symbol,eq,'{symbol}'],[volume,>,{volume}]"),
    (34, "[class,eq,'STOCK'],[symbol,eq,'{symbol}']"),
    (5, "[class,eq,'STOCK'],[volume,>,{volume}]"),
    (1, "[class,eq,'STOCK']"),
)
#: Quotes of a stock, after which they begin again.
HISTORY = 500
#: Messages a minute: publishers have uniformly distributed rates up to this.
FASTEST = 60.0


@dataclass(frozen=True)
class Publisher:
    symbol: str
    rate: float  # messages a minute
    at: float
    faster: bool = False  # its rate doubles at the change


@dataclass(frozen=True)
class Subscriber:
    name: str
    at: float
    subscription: int


@dataclass(frozen=True)
class Size:
    """``zero``: the share of subscribers that no publication matches."""

    publishers: int = 40
    subscribers: int = 2_000
    zero: float = 0.25
    seconds: float = 5_000.0
    change_at: float = 3_000.0
    join_from: float = 10.0
    join_until: float = 1_010.0

    def __post_init__(self) -> None:
        if self.publishers < 1 or self.subscribers < 0 or not 0 <= self.zero <= 1:
            text = f"{self.publishers} publishers, {self.subscribers} subscribers, {self.zero:g} without traffic"
            raise UserError(text, hint="there is a publisher, and the share is between 0 and 1")
        if not self.join_from <= self.join_until <= self.seconds:
            raise UserError(f"subscribers join until {self.join_until:g} s of {self.seconds:g}", hint="end later")


@dataclass(frozen=True)
class Workload:
    """``subscriptions``: unique ones, in PADRES' notation; ``quotes``: of each symbol, its publications in turn."""

    size: Size
    publishers: Sequence[Publisher]
    subscribers: Sequence[Subscriber]
    subscriptions: Sequence[str]
    quotes: Mapping[str, Sequence[Mapping[str, Any]]]


def generate(size: Size, seed: int) -> Workload:
    streams = RandomStreams(seed)
    rng = streams.of("publishers")
    symbols = [f"S{number:03}" for number in range(size.publishers)]
    quotes = {symbol: history(symbol, streams.of(f"quotes/{symbol}")) for symbol in symbols}
    faster = set(rng.sample(symbols, size.publishers // 2))
    publishers = [
        Publisher(symbol, rng.uniform(0.0, FASTEST), 5.0 + 0.1 * number, symbol in faster)
        for number, symbol in enumerate(symbols)
    ]
    # A stock that no publisher has: its subscribers get nothing.
    unpublished = [f"Z{number:03}" for number in range(size.publishers)]
    others = {symbol: history(symbol, streams.of(f"quotes/{symbol}")) for symbol in unpublished}
    rng = streams.of("subscribers")
    numbers: dict[str, int] = {}
    subscribers = []
    silent = set(rng.sample(range(size.subscribers), round(size.zero * size.subscribers)))
    for each in range(size.subscribers):
        text = subscription(rng, others, TEMPLATES[:4]) if each in silent else subscription(rng, quotes, TEMPLATES)
        number = numbers.setdefault(text, len(numbers))
        subscribers.append(Subscriber(f"s{each}", rng.uniform(size.join_from, size.join_until), number))
    subscribers.sort(key=lambda each: each.at)
    return Workload(size, publishers, subscribers, list(numbers), quotes)


def history(symbol: str, rng: Random) -> list[dict[str, Any]]:
    quotes = Quotes(symbol, rng)
    return [quotes.next() for _ in range(HISTORY)]


def subscription(
    rng: Random, quotes: Mapping[str, Sequence[Mapping[str, Any]]], templates: Sequence[tuple[int, str]]
) -> str:
    """A template with the values of a random publication of a random stock."""
    (template,) = rng.choices([text for _, text in templates], [share for share, _ in templates])
    symbol = rng.choice(sorted(quotes))
    return template.format(**rng.choice(quotes[symbol]))
