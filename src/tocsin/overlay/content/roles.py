"""PEER: cluster heads serve publishers, edges serve subscribers, and which broker a client belongs at."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tocsin.overlay.content.events import Kind
from tocsin.overlay.content.messages import Record, Role
from tocsin.overlay.content.topology import Topology

SERVES: dict[Kind, tuple[Role, ...]] = {"publisher": ("head", "both"), "subscriber": ("edge", "both")}


def role_of(neighbours: int, brokers: int) -> Role:
    """One or two brokers serve all clients; from three on, the number of neighbours decides."""
    if brokers < 3:
        return "both"
    return "head" if neighbours > 1 else "edge"


def target(kind: Kind, topology: Topology, reachable: Callable[[str], bool], rng: Random) -> str | None:
    """A random broker that serves this kind, of the nearest that have room: the own cluster, then the next ones.

    If none has room, one of the nearest; None if no other broker serves this kind.
    """
    nearest: list[str] | None = None
    for ring in _rings(topology, reachable):
        serving = [each for each in ring if each.role in SERVES[kind]]
        free = [each.name for each in serving if not each.overloaded or kind == "publisher"]
        if free:
            return rng.choice(free)
        if serving and nearest is None:
            nearest = [each.name for each in serving]
    return rng.choice(nearest) if nearest else None


def _rings(topology: Topology, reachable: Callable[[str], bool]) -> list[list[Record]]:
    """The other brokers, by their distance; those over a link that is down are left out."""
    rings: dict[int, list[Record]] = {}
    for name, hops in topology.distances():
        record = topology.records.get(name)
        if record is not None and reachable(name):
            rings.setdefault(hops, []).append(record)
    return [sorted(rings[hops], key=lambda each: each.name) for hops in sorted(rings)]
