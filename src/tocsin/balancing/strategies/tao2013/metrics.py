"""The load metrics of heads and edges (tables I and II), and the table of what each topic uses (load analysis, IV.C.1).

Everything here is arithmetic on one broker: ``LoadTable`` is changed by making another one, so that the influence of a
bundle on all metrics can be estimated before it migrates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

DOWNLINK, MATCHING, UPLINK, QUEUE = "downlink", "matching", "uplink", "queue depth"
BYTE = 8
#: Seconds × MHz to match a message with one subscription; from the delays and numbers of figures 5.9 and 5.11 of the
#: thesis on PEER, which the paper extends without a constant of its own.
MATCHING_COST = 0.017


class Role(Enum):
    """A head has publishers as clients, an edge has subscribers."""

    HEAD = "head"
    EDGE = "edge"


METRICS: Mapping[Role, tuple[str, ...]] = MappingProxyType(
    {Role.HEAD: (DOWNLINK, UPLINK), Role.EDGE: (QUEUE, DOWNLINK, MATCHING, UPLINK)}
)


class Origin(Enum):
    """Where the other side of a topic is: its publishers, seen from an edge; its subscribers, seen from a head."""

    REMOTE = "remote"
    BOTH = "remote and local"
    LOCAL = "local"
    NONE = "none"


@dataclass(frozen=True)
class Resources:
    """Bits a second of the two links, and the processor that matches."""

    uplink: float
    downlink: float
    megahertz: float = 0.0


@dataclass(frozen=True)
class TopicUse:
    """What the clients of a topic use at a broker.

    ``rate``: messages a second that come in, of ``size`` bytes each; each leaves ``copies`` times. ``waiting``:
    messages in the output queue, all copies. ``allowed``: seconds that a message may wait there (t_{s,T-e}).
    """

    topic: str
    clients: tuple[str, ...]
    rate: float
    size: float
    copies: float
    waiting: float = 0.0
    allowed: float = float("inf")
    origin: Origin = Origin.LOCAL

    @property
    def bits_in(self) -> float:
        return self.rate * self.size * BYTE

    @property
    def bits_out(self) -> float:
        return self.bits_in * self.copies

    @property
    def arriving(self) -> float:
        """Messages a second into the output queue: λ of the whole bundle."""
        return self.rate * self.copies


@dataclass(frozen=True)
class LoadTable:
    """One broker: its resources, and the use of each topic. A unit is a topic (the bundle), or one client of it."""

    resources: Resources
    role: Role
    uses: Mapping[str, TopicUse] = field(default_factory=dict)

    @staticmethod
    def of(resources: Resources, role: Role, uses: Iterable[TopicUse]) -> LoadTable:
        return LoadTable(resources, role, {use.topic: use for use in uses})

    def __iter__(self) -> Iterator[TopicUse]:
        return iter(self.uses.values())

    def metric(self, name: str) -> float:
        """Tables I and II; the queue depth of the whole broker is the sum over its queues."""
        if name == UPLINK:
            return sum(use.bits_out for use in self) / self.resources.uplink
        if name == DOWNLINK:
            return sum(use.bits_in for use in self) / self.resources.downlink
        if name == MATCHING:
            return self.input_rate / self.matching_rate
        if name == QUEUE:
            return sum(use.waiting for use in self)
        raise KeyError(name)

    @property
    def metrics(self) -> dict[str, float]:
        return {name: self.metric(name) for name in METRICS[self.role]}

    @property
    def input_rate(self) -> float:
        return sum(use.rate for use in self)

    @property
    def matching_rate(self) -> float:
        """Messages a second that can be matched: the more subscriptions, the fewer."""
        return self.resources.megahertz / (MATCHING_COST * max(1, sum(len(use.clients) for use in self)))

    def share(self, unit: str, metric: str) -> float:
        """What this unit contributes to a metric."""
        return self.metric(metric) - self.without([unit]).metric(metric)

    # Units.

    def part(self, unit: str) -> TopicUse | None:
        """The use of a bundle, or of one client."""
        topic, _, _ = unit.partition("/")
        use = self.uses.get(topic)
        if use is None or unit == topic:
            return use
        return divided(use, self.role, [unit]) if unit in use.clients else None

    def without(self, units: Iterable[str]) -> LoadTable:
        left = dict(self.uses)
        for unit in units:
            topic, _, _ = unit.partition("/")
            use = left.get(topic)
            if use is None:
                continue
            rest = [] if unit == topic else [each for each in use.clients if each != unit]
            if not rest:
                del left[topic]
            elif len(rest) < len(use.clients):
                left[topic] = divided(use, self.role, rest)
        return replace(self, uses=left)

    def including(self, arriving: TopicUse) -> LoadTable:
        """With these clients too. What waits stays where it is, and does not come along."""
        known = self.uses.get(arriving.topic)
        use = replace(arriving, waiting=0.0) if known is None else joined(known, arriving, self.role)
        return replace(self, uses={**self.uses, arriving.topic: use})


def divided(use: TopicUse, role: Role, clients: Iterable[str]) -> TopicUse:
    """The part of these clients. A subscriber at an edge gets all messages; a publisher at a head brings its own."""
    kept = tuple(clients)
    share = len(kept) / len(use.clients)
    if role is Role.HEAD:
        return replace(use, clients=kept, rate=use.rate * share)
    return replace(use, clients=kept, copies=use.copies * share, waiting=use.waiting * share)


def joined(use: TopicUse, more: TopicUse, role: Role) -> TopicUse:
    clients = use.clients + tuple(each for each in more.clients if each not in use.clients)
    if role is Role.HEAD:
        return replace(use, clients=clients, rate=use.rate + more.rate)
    return replace(use, clients=clients, copies=use.copies + more.copies)
