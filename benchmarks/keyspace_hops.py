"""Hops of a lookup in the key spaces, beside what theory says, for 100 to 10,000 peers."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from benchmarks import harness
from benchmarks.harness import Table
from tocsin.overlay.keyspace import converged
from tocsin.overlay.keyspace.can.boxes import Space
from tocsin.overlay.keyspace.mercury.mercury import Hub
from tocsin.overlay.keyspace.messages import Described, Find
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.overlay.keyspace.peer import Peer
from tocsin.simulation.keyspaces.loopback import Loopback

SIZES = [100, 1_000, 10_000]
LOOKUPS = 1_000
#: Long links of a Mercury member.
LINKS = 6
Build = Callable[[int, Random], dict[str, Peer]]
SETTINGS = Settings(copies=1)


def _can(dimensions: int) -> Build:
    return lambda peers, rng: converged.can(peers, rng, SETTINGS, space=Space(dimensions, 1 << 48))


def _mercury(spread: Callable[[float], float]) -> Build:
    return lambda peers, rng: converged.mercury(peers, rng, SETTINGS, hub=Hub(LINKS), spread=spread)


#: Name, how it is built, the theory's formula, and its value for n peers.
OVERLAYS: list[tuple[str, Build, str, Callable[[int], float]]] = [
    ("CAN, d = 2", _can(2), "d/4 · n^(1/d)", lambda n: 2 / 4 * n ** (1 / 2)),
    ("CAN, d = 4", _can(4), "d/4 · n^(1/d)", lambda n: 4 / 4 * n ** (1 / 4)),
    ("Chord", lambda n, rng: converged.chord(n, rng, SETTINGS), "½ · log2 n", lambda n: math.log2(n) / 2),
    (
        "Mercury, values uniform",
        _mercury(lambda x: x),
        f"log2² n / k, k = {LINKS}",
        lambda n: math.log2(n) ** 2 / LINKS,
    ),
    (
        "Mercury, values skewed",
        _mercury(lambda x: x**4),
        f"log2² n / k, k = {LINKS}",
        lambda n: math.log2(n) ** 2 / LINKS,
    ),
]


def hops(peers: dict[str, Peer], rng: Random, lookups: int) -> list[int]:
    """Of lookups from random peers for keys that random members own."""
    network, hosts = Loopback(peers), list(peers)
    members = [member for peer in peers.values() for member in peer.members.values()]
    found = []
    for _ in range(lookups):
        member = rng.choice(members)
        done = network.request(rng.choice(hosts), member.ring.name, member.order.origin(member.me), Find())
        assert isinstance(done.body, Described) and done.body.me.id == member.me.id
        found.append(done.hops)
    return found


def run(full: bool) -> list[Table]:
    table = Table(
        "Hops of a lookup, no peer missing",
        ["key space", "peers", "mean", "99th percentile", "most", "theory", "formula", "links of a peer"],
        notes=[
            f"{LOOKUPS:,} lookups from random peers for random members' keys; seed 1.",
            "The theory of CAN assumes zones of equal size; here peers entered at random keys.",
            "That of Mercury is an upper bound without its constant.",
        ],
    )
    for name, build, formula, theory in OVERLAYS:
        for size in SIZES:
            rng = Random(1)
            peers = build(size, rng)
            found = hops(peers, rng, LOOKUPS)
            links = [len({each.id for each in (*m.links.contacts(), *m.ring.contacts())}) for m in _members(peers)]
            mean = sum(found) / len(found)
            table.add(name, size, mean, harness.p99(found), max(found), theory(size), formula, sum(links) / len(links))
            harness.progress(f"{name}, {size:,} peers: {mean:.2f} hops, theory {theory(size):.2f}")
    return [table]


def _members(peers: dict[str, Peer]) -> list[converged.Member]:
    return [member for peer in peers.values() for member in peer.members.values()]


if __name__ == "__main__":
    harness.main("keyspace_hops", run)
