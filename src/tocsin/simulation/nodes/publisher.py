"""An application that publishes: some records now and then, a few of which the data cluster will not take."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from tocsin.client.core import events as ev
from tocsin.client.notification import Receipt
from tocsin.errors import TocsinError

if TYPE_CHECKING:
    from tocsin.simulation.nodes.client import ClientNode

FEED = "F"
#: Publications that an application waits for at the same time. A broker does not keep answers that nobody reads.
MOST = 2


class Record(Struct, frozen=True):
    """``wrong``: one that does not fit."""

    id: str
    wrong: bool = False


class Paper(Struct, eq=False):
    """One publication. ``life`` is the client's in which it was handed over; ``outcome`` is what came of it."""

    records: list[Record]
    retry: bool
    life: int
    outcome: Receipt | TocsinError | None = None

    @property
    def wrong(self) -> list[int]:
        return [place for place, record in enumerate(self.records) if record.wrong]


class Publisher:
    """``every`` so many seconds about; 0: never. What it has published is durable."""

    def __init__(self, node: ClientNode, rng: Random, every: float) -> None:
        self.node, self.rng, self.every = node, rng, every
        self.papers: list[Paper] = []

    def boot(self) -> None:
        if self.every:
            self.node.later(self.every * self.rng.random(), self._publish)

    def _publish(self) -> None:
        if not self.every:
            return
        self.node.later(self.every * self.rng.uniform(0.5, 1.5), self._publish)
        waiting = [paper for paper in self.papers if paper.outcome is None and paper.life == self.node.life]
        if len(waiting) < MOST:
            self._hand_over()

    def _hand_over(self) -> None:
        rng, request = self.rng, len(self.papers)
        name = f"{self.node.name}/{request}"
        records = [Record(f"{name}/{n}", rng.random() < 0.1) for n in range(rng.randint(1, 4))]
        paper = Paper(records, rng.random() < 0.5, self.node.life)
        self.papers.append(paper)
        texts = [msgspec.json.encode(each) for each in records]
        self.node.handle(ev.WantPublish(request, FEED, texts, paper.retry))

    def ended(self, request: int, outcome: Receipt | TocsinError) -> None:
        self.papers[request].outcome = outcome
        if self.node.trace:
            told = outcome.message if isinstance(outcome, TocsinError) else f"{outcome.taken} taken"
            self.node.trace.say(self.node.name, f"publication {request} ended: {told}")
