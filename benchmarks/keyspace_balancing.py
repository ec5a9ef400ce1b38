"""All strategies of Antoine et al. side by side: each on the key space of its paper, from a skewed load."""

from __future__ import annotations

from random import Random

from benchmarks import harness
from benchmarks.harness import Table
from tocsin.experiments.antoine2014.arena import Arena, Size, build
from tocsin.experiments.antoine2014.pt2 import first_places
from tocsin.overlay.balancing.strategies import STRATEGIES
from tocsin.overlay.keyspace.messages import Find

SIZES, LARGEST = [32, 100, 1_000], [10_000]
#: Items of each peer, on average, and seconds that a strategy has.
ITEMS, SECONDS, STEP = 20, 120.0, 5.0
LOOKUPS = 200
#: A strategy has balanced when its deviation is this close to the last one.
SETTLED = 1.1


def run(full: bool) -> list[Table]:
    table = Table(
        "Strategies on key spaces",
        [
            "strategy",
            "peers",
            "deviation before, %",
            "after, %",
            "ratio",
            "settled after, s",
            "items carried per item",
            "messages of hosts per peer and s",
            "of them all, %",
            "hops of a lookup",
        ],
        notes=[
            f"{ITEMS} items for each peer, {SECONDS:g} simulated seconds, seed 1; messages arrive at once.",
            "Deviation: relative, of the sample, of what is balanced. Key spaces and loads differ: compare ratios.",
            "Before, for Byers: if every item were at the first of its places.",
            "Carried: sizes of items in messages over the size of all items, insertion not counted.",
        ],
    )
    for name in STRATEGIES:
        for peers in [*SIZES, *(LARGEST if full else [])]:
            row = measure(name, peers)
            table.add(name, peers, *row)
            harness.progress(f"{name}, {peers:,} peers: {row[0]:.0f}% → {row[1]:.0f}%")
    return [table]


def measure(name: str, peers: int) -> list[float]:
    size = Size(peers, ITEMS * peers, SECONDS)
    arena = build(name, size, 1)
    space = arena.space
    before = (first_places(arena) if arena.places else arena.result()).deviation
    began, carried, sent, mails = space.net.now, space.net.carried, space.net.sent, space.mails
    curve = [before]
    while space.net.now < began + SECONDS:
        space.run(STEP, 1.0)
        curve.append(arena.result().deviation)
    total = sum(item.size for member in space.members for item in member.own_items())
    exchanged = space.mails - mails
    return [
        before,
        curve[-1],
        before / curve[-1],
        STEP * next(step for step, each in enumerate(curve) if each <= SETTLED * curve[-1]),
        (space.net.carried - carried) / max(1, total),
        exchanged / peers / SECONDS,
        100 * exchanged / max(1, space.net.sent - sent),
        hops(arena),
    ]


def hops(arena: Arena) -> float:
    rng, members, space = Random(1), arena.space.members, arena.space
    found = []
    for _ in range(LOOKUPS):
        to, asking = rng.choice(members), rng.choice(members)
        found.append(space.net.request(asking.me.host, space.ring, to.order.origin(to.me), Find()).hops)
    return sum(found) / len(found)


if __name__ == "__main__":
    harness.main("keyspace_balancing", run)
