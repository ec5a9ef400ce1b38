"""What is simulated: brokers (table V), topics (table VI and random ones like it), latencies, and the burst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from tocsin.balancing.strategies.tao2013.metrics import BYTE, Resources
from tocsin.errors import UserError

MEGA = 1e6
#: Messages a second of one publisher.
PUBLISHED = 50.0


@dataclass(frozen=True)
class Topic:
    """``deadline``: seconds from publication to delivery. ``size``: bytes. ``home``: the head of its publishers."""

    name: str
    publishers: int
    subscribers: int
    deadline: float
    size: float
    home: str = "bh"

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(f"{self.name}/{number}" for number in range(self.subscribers))

    @property
    def rate(self) -> float:
        return self.publishers * PUBLISHED

    @property
    def bits_out(self) -> float:
        """All subscribers together."""
        return self.rate * self.size * BYTE * self.subscribers


@dataclass(frozen=True)
class Latency:
    """Seconds. The paper counts the way between client and broker once: 1.8 − 0.2 − 0.1 = 1.5."""

    broker: float = 0.1
    client: float = 0.2
    publisher: float = 0.0


@dataclass(frozen=True)
class Setup:
    """``clusters``: the edges of each head. ``burst``: topics whose rate is multiplied by ``factor`` at ``burst_at``.

    A topic joins each second from the first on. ``first``: the edge that all join where nothing distributes them.
    """

    brokers: Mapping[str, Resources]
    clusters: Mapping[str, Sequence[str]]
    topics: Sequence[Topic]
    burst: frozenset[str]
    first: str
    factor: float = 2.0
    burst_at: int = 30
    seconds: int = 100
    latency: Latency = field(default_factory=Latency)
    correlated: Sequence[frozenset[str]] = ()

    def __post_init__(self) -> None:
        names = {topic.name for topic in self.topics}
        if not self.burst <= names:
            missing = ", ".join(sorted(self.burst - names))
            raise UserError(f"the burst names topics that do not exist: {missing}", hint="see the list of topics")
        placed = [*self.clusters, *(edge for edges in self.clusters.values() for edge in edges)]
        if sorted(placed) != sorted(self.brokers) or self.first not in placed:
            raise UserError("clusters and brokers differ", hint="each broker is one head, or an edge of one head")
        for topic in self.topics:
            if topic.home not in self.clusters:
                raise UserError(f"topic {topic.name} has publishers at {topic.home}", hint="name a head")
            if not (topic.publishers >= 0 and topic.subscribers > 0 and topic.size > 0 and topic.deadline > 0):
                hint = "subscribers, size and deadline are above 0"
                raise UserError(f"topic {topic.name} cannot be simulated", hint=hint)

    @property
    def peak(self) -> float:
        """All output of the burst, over the uplinks of all edges."""
        edges = [edge for edges in self.clusters.values() for edge in edges]
        out = sum(each.bits_out * (self.factor if each.name in self.burst else 1.0) for each in self.topics)
        return out / sum(self.brokers[edge].uplink for edge in edges)


def broker(megahertz: float, megabits: float) -> Resources:
    return Resources(megabits * MEGA, megabits * MEGA, megahertz)


#: Table V; uplink and downlink are the same.
TABLE_V: Mapping[str, Resources] = {
    "bh": broker(2000, 20),
    "b0": broker(800, 6.5),
    "b1": broker(1500, 8),
    "b2": broker(1300, 5),
    "b3": broker(1000, 8),
}
STAR: Mapping[str, Sequence[str]] = {"bh": ("b0", "b1", "b2", "b3")}
#: Table VI: publishers, subscribers, deadline, size.
_TABLE_VI = (
    (1, 8, 1.8, 200),
    (2, 2, 1.7, 800),
    (5, 1, 1.6, 1000),
    (4, 2, 1.5, 400),
    (3, 3, 1.4, 200),
    (1, 1, 1.3, 400),
    (2, 5, 1.2, 300),
    (2, 7, 1.1, 400),
    (5, 2, 1.0, 500),
    (4, 4, 0.9, 200),
    (1, 5, 30, 600),
    (3, 2, 60, 400),
    (1, 6, 40, 200),
    (2, 3, 50, 300),
    (4, 5, 100, 200),
)
TABLE_VI = tuple(Topic(str(number), *row) for number, row in enumerate(_TABLE_VI, start=1))
#: "7 topics (e.g., topic 2, 4, 5, …, 12, 14)": 8 is among them, because its queue grows; the seventh is not given.
SEVENTH = "11"
DEADLINES = tuple(topic.deadline for topic in TABLE_VI)
#: Of random tables, those whose burst the cluster cannot carry are left out: "more brokers are required".
CARRIED = 0.95


def paper(seventh: str = SEVENTH) -> Setup:
    burst = frozenset({"2", "4", "5", "8", "12", "14", seventh})
    return Setup(TABLE_V, STAR, TABLE_VI, burst, "b1", correlated=(burst,))


def random_setup(seed: int, most: float = CARRIED) -> tuple[Setup, int]:
    """A table drawn as the paper describes, and how many were drawn before it that no balancing could have served.

    Publishers 1–5, subscribers 1–8, sizes 200–1000 bytes in hundreds, the deadlines of table VI, 7 topics in the burst.
    """
    rng, dropped = Random(f"table {seed}"), 0
    capacity = sum(TABLE_V[edge].uplink for edge in STAR["bh"])
    names = [str(number) for number in range(1, len(DEADLINES) + 1)]
    while True:
        rows = [(rng.randint(1, 5), rng.randint(1, 8), 100.0 * rng.randint(2, 10)) for _ in names]
        burst = frozenset(rng.sample(names, 7))
        # Most tables are dropped: what they need is computed without making them.
        needs = {
            name: pubs * PUBLISHED * subs * size * BYTE for name, (pubs, subs, size) in zip(names, rows, strict=True)
        }
        if sum(needs[name] * (2 if name in burst else 1) for name in names) <= most * capacity:
            break
        dropped += 1
    topics = [
        Topic(name, pubs, subs, deadline, size)
        for name, (pubs, subs, size), deadline in zip(names, rows, DEADLINES, strict=True)
    ]
    return Setup(TABLE_V, STAR, tuple(topics), burst, "b1", correlated=(burst,)), dropped
