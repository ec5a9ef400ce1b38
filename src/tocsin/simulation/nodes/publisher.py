"""An application that publishes records now and then; the data cluster refuses a few of them."""

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
#: Publications that an application waits for at the same time: a broker does not keep answers that are not read.
MOST = 2


class Record(Struct, frozen=True):
    """``wrong``: the data cluster refuses it."""

    id: str
    wrong: bool = False


class Publication(Struct, eq=False):
    """``life`` is the run of the client that published it; ``outcome`` is the receipt or the error."""

    records: list[Record]
    retry: bool
    life: int
    outcome: Receipt | TocsinError | None = None

    @property
    def wrong(self) -> list[int]:
        return [index for index, record in enumerate(self.records) if record.wrong]


class Publisher:
    """Publishes about ``every`` N seconds, or never if 0. It remembers its publications over restarts."""

    def __init__(self, node: ClientNode, rng: Random, every: float) -> None:
        self.node, self.rng, self.every = node, rng, every
        self.publications: list[Publication] = []

    def boot(self) -> None:
        if self.every:
            self.node.later(self.every * self.rng.random(), self._publish)

    def _publish(self) -> None:
        if not self.every:
            return
        self.node.later(self.every * self.rng.uniform(0.5, 1.5), self._publish)
        waiting = [
            publication
            for publication in self.publications
            if publication.outcome is None and publication.life == self.node.life
        ]
        if len(waiting) < MOST:
            self._publish_now()

    def _publish_now(self) -> None:
        rng, request = self.rng, len(self.publications)
        name = f"{self.node.name}/{request}"
        records = [Record(f"{name}/{n}", rng.random() < 0.1) for n in range(rng.randint(1, 4))]
        publication = Publication(records, rng.random() < 0.5, self.node.life)
        self.publications.append(publication)
        texts = [msgspec.json.encode(each) for each in records]
        self.node.handle(ev.PublishRequested(request, FEED, texts, publication.retry))

    def ended(self, request: int, outcome: Receipt | TocsinError) -> None:
        self.publications[request].outcome = outcome
        if self.node.trace:
            text = outcome.message if isinstance(outcome, TocsinError) else f"{outcome.accepted} accepted"
            self.node.trace.say(self.node.name, f"publication {request} ended: {text}")
