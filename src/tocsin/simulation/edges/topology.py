"""The brokers of the thesis' experiments: Tables 5.3 to 5.5, and clusters as a chain or a star."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tocsin.errors import UserError
from tocsin.simulation.edges.broker import Specification


@dataclass(frozen=True)
class Cluster:
    head: Specification
    edges: Sequence[Specification]

    @property
    def name(self) -> str:
        return self.head.name


@dataclass(frozen=True)
class Topology:
    """The first cluster has all publishers, and its first edge gets all subscribers. ``links``: the heads that a
    head is connected with; a tree."""

    clusters: Sequence[Cluster]
    links: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        names = [each.name for cluster in self.clusters for each in (cluster.head, *cluster.edges)]
        if len(set(names)) < len(names):
            raise UserError("two brokers have the same name", hint="give each a name of its own")
        if not self.clusters or not all(cluster.edges for cluster in self.clusters):
            raise UserError("a cluster has no edge", hint="subscribers connect to edges")
        heads = {cluster.name for cluster in self.clusters}
        reached, front = set(), [self.clusters[0].name]
        while front:
            head = front.pop()
            reached.add(head)
            front += [each for each in self.links.get(head, ()) if each not in reached]
        if reached != heads:
            raise UserError(f"{', '.join(sorted(heads ^ reached))} cannot be reached", hint="connect every head")


def local() -> Topology:
    """Table 5.3, figure 5.2."""
    edges = [
        Specification("B1", 100, 16, 0.5),
        Specification("B2", 200, 16, 1),
        Specification("B3", 400, 32, 2),
        Specification("B4", 1000, 32, 5),
    ]
    return Topology([Cluster(Specification("B0", 2000, 32, 10), edges)], {})


def identical_edges(count: int) -> Topology:
    """Section 5.3.1.3: edges of 500 MHz, 64 MB and 3 Mbit/s."""
    edges = [Specification(f"B{number}", 500, 64, 3) for number in range(1, count + 1)]
    return Topology([Cluster(Specification("B0", 2000, 32, 10), edges)], {})


def chain(clusters: Sequence[Cluster]) -> Topology:
    names = [each.name for each in clusters]
    links: dict[str, list[str]] = {name: [] for name in names}
    for one, other in pairwise(names):
        links[one].append(other)
        links[other].append(one)
    return Topology(clusters, links)


def star(clusters: Sequence[Cluster]) -> Topology:
    centre, *others = (each.name for each in clusters)
    return Topology(clusters, {centre: others, **{each: [centre] for each in others}})


def _cluster(number: int, *edges: tuple[float, float, float]) -> Cluster:
    head = Specification(f"B{number}0", 3000, 128, 10)
    return Cluster(head, [Specification(f"B{number}{place}", *each) for place, each in enumerate(edges, 1)])


def global_chain() -> Topology:
    """Table 5.4, figure 5.16."""
    return chain(
        [
            _cluster(1, (300, 128, 1), (200, 128, 0.5)),
            _cluster(2, (350, 64, 1), (400, 64, 1.5)),
            _cluster(3, (266, 64, 1), (700, 64, 2)),
            _cluster(4, (166, 64, 0.5), (233, 128, 0.5)),
        ]
    )


def global_star() -> Topology:
    """Table 5.5."""
    return star(
        [
            _cluster(1, (266, 64, 1), (700, 64, 2)),
            _cluster(2, (300, 128, 1), (200, 128, 0.5)),
            _cluster(3, (350, 64, 1), (400, 64, 1.5)),
            _cluster(4, (166, 64, 0.5), (233, 128, 0.5)),
        ]
    )


def identical_clusters(count: int) -> Topology:
    """Section 5.3.2: a chain of clusters with two edges each."""
    found = []
    for number in range(1, count + 1):
        edges = [Specification(f"B{number}{place}", 500, 64, 3) for place in (1, 2)]
        found.append(Cluster(Specification(f"B{number}0", 2000, 32, 10), edges))
    return chain(found)
