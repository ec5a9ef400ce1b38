"""The subscriptions and publications: the same for every server and in every run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice

#: Occurs once in a delivery; a server that wraps the payload must not repeat it.
MARKER = b'"execution":'
_HEAD = '{"subscription":"s-1","execution":1,"payload":"'
PAYLOAD = (_HEAD + "x" * (300 - len(_HEAD) - 2) + '"}').encode()


@dataclass(frozen=True)
class Case:
    """``subscribers``, each of ``each`` topics out of ``topics``."""

    name: str
    subscribers: int
    topics: int = 1
    each: int = 1
    seed: int = 7

    @cached_property
    def subscriptions(self) -> list[list[int]]:
        """The topics of each subscriber."""
        choice = random.Random(self.seed)
        return [choice.sample(range(self.topics), self.each) for _ in range(self.subscribers)]

    @cached_property
    def audience(self) -> Counter[int]:
        """How many subscribers each topic has."""
        return Counter(topic for chosen in self.subscriptions for topic in chosen)

    def bursts(self, size: int) -> Iterator[list[int]]:
        """Without end: the topics of the next ``size`` messages; every topic gets its turn."""
        order = list(range(self.topics))
        random.Random(self.seed + 1).shuffle(order)
        turn = cycle(order)
        while True:
            yield list(islice(turn, size))

    def deliveries(self, burst: list[int]) -> int:
        return sum(self.audience[topic] for topic in burst)


CASES = [
    Case("1k", 1_000),
    Case("5k", 5_000),
    Case("10k", 10_000),
    Case("dense", 5_000, topics=100, each=20),
    Case("sparse", 5_000, topics=1_000, each=2),
]
