"""All strategies of Antoine et al. side by side: each on the key space of its paper, from a skewed load.

Every figure is a count or a simulated time, so that a busy machine changes none of them. Rows are made in several
processes and kept in ``artifacts/``: the same command goes on with those that are missing.
"""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from random import Random

from benchmarks import harness
from benchmarks.harness import Table
from tocsin.experiments.antoine2014.arena import Arena, Size, build
from tocsin.experiments.antoine2014.pt2 import first_places
from tocsin.overlay.balancing.strategies import STRATEGIES
from tocsin.overlay.keyspace.messages import Find

#: Peers, and the simulated seconds that a strategy has: where one peer has everything, it takes a period to double.
SECONDS = {100: 120.0, 1_000: 180.0, 10_000: 240.0}
LARGEST = 10_000
#: Items of each peer, on average; seconds between two looks, and after which a member looks after its ring again.
ITEMS, STEP, PERIOD = 20, 5.0, 10.0
LOOKUPS = 200
#: A strategy has balanced when its deviation is this close to the last one.
SETTLED = 1.1
ROOT = Path(__file__).parent.parent
KEPT = ROOT / "artifacts" / "keyspace_balancing.json"
Row = list[float]


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
            f"{ITEMS} items for each peer, seed 1; messages arrive at once. Simulated seconds: "
            + ", ".join(f"{seconds:g} with {peers:,} peers" for peers, seconds in SECONDS.items())
            + ".",
            "Deviation: relative, of the sample, of what is balanced. Key spaces and loads differ: compare ratios.",
            "Before, for Byers: if every item were at the first of its places.",
            "Carried: sizes of items in messages over the size of all items, insertion not counted.",
            f"No machine fails, so members look after their rings every {PERIOD:g} s only.",
        ],
    )
    sizes = [peers for peers in SECONDS if full or peers < LARGEST]
    rows = made([(name, peers) for peers in sizes for name in STRATEGIES])
    for name in STRATEGIES:
        for peers in sizes:
            table.add(name, peers, *rows[name, peers])
    return [table]


def made(wanted: list[tuple[str, int]]) -> dict[tuple[str, int], Row]:
    """Small networks first; each row is kept as soon as it is there, for this revision of the code."""
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    rows = {(name, peers): row for revised, name, peers, row in kept.get("rows", ()) if revised == revision.strip()}
    missing = [each for each in wanted if each not in rows]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        under_way = {pool.submit(measure, *each): each for each in missing}
        for future in as_completed(under_way):
            name, peers = under_way[future]
            row = rows[name, peers] = future.result()
            harness.progress(f"{name}, {peers:,} peers: {row[0]:.0f}% → {row[1]:.0f}%")
            KEPT.parent.mkdir(exist_ok=True)
            KEPT.write_text(json.dumps({"rows": [[revision.strip(), *each, rows[each]] for each in rows]}))
    return rows


def measure(name: str, peers: int) -> Row:
    seconds = SECONDS.get(peers, SECONDS[100])
    arena = build(name, Size(peers, ITEMS * peers, seconds, period=PERIOD), 1)
    space = arena.space
    before = (first_places(arena) if arena.places else arena.result()).deviation
    began, carried, sent, mails = space.net.now, space.net.carried, space.net.sent, space.mails
    curve = [before]
    while space.net.now < began + seconds:
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
        exchanged / peers / seconds,
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
