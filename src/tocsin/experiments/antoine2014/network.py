"""EventCloud's key space, whose first peer owns everything, and the ways to balance it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, stdev
from typing import Any

from tocsin.balancing.host.host import Trigger
from tocsin.experiments.antoine2014.quadruples import OF_A_TWEET, items
from tocsin.overlay.balancing import strategies
from tocsin.overlay.keyspace.can.can import Can
from tocsin.overlay.keyspace.can.terms import QUADRUPLES
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.overlay.keyspace.peer import Peer
from tocsin.simulation.keyspaces.balanced import SETTINGS, BalancedKeySpace, one_and_idle

RING = "quadruples"
#: Seconds between two iterations of a peer, after which it ends if no peer has joined in ten of them.
PERIOD, PATIENCE = 10.0, 10
TICK = 1.0
#: Seconds in which quadruples are inserted, where that happens while peers balance.
INSERTION = 500.0


@dataclass(frozen=True)
class Size:
    quadruples: int
    peers: int

    @property
    def ideal(self) -> float:
        return self.quadruples / self.peers


PAPER, SMALL = Size(100_000, 32), Size(1_000, 8)


@dataclass(frozen=True)
class Result:
    """``loads`` of all peers, idle ones too, heaviest first; ``mails``: messages between hosts."""

    loads: tuple[float, ...]
    seconds: float = 0.0
    mails: int = 0

    @property
    def deviation(self) -> float:
        """Relative, of the sample, in percent: √32 of 32 peers if one has everything."""
        return 100 * stdev(self.loads) / fmean(self.loads)

    @property
    def used(self) -> int:
        return sum(load > 0 for load in self.loads)

    def close(self, ideal: float) -> float:
        """The share of peers between a half and one and a half of the ideal."""
        return sum(ideal / 2 <= load <= ideal * 1.5 for load in self.loads) / len(self.loads)


def network(
    size: Size,
    seed: int,
    strategy: str,
    *,
    stored: bool = True,
    change: Callable[[strategies.Strategy], strategies.Strategy] = lambda each: each,
    timing: Settings = SETTINGS,
    **settings: Any,
) -> BalancedKeySpace:
    peers = one_and_idle(Can(QUADRUPLES), RING, size.peers, Random(f"peers {seed}"), timing)
    first, *pool = peers

    def make(peer: Peer) -> strategies.Strategy:
        return change(strategies.make(strategy, peer, RING, {"pool": pool, **settings}))

    space = BalancedKeySpace(peers, RING, make, seed)
    if stored:
        space.store(first, items(size.quadruples // OF_A_TWEET, seed))
    return space


def oracle(size: Size, seed: int, cut: str) -> Result:
    """A new peer joins the most loaded one again and again: only the oracle sees all loads."""
    space = network(size, seed, "eventcloud-absolute", threshold=0.0, cut=cut)
    for each in space.peers.values():
        each.host.balancing.clock.period = each.host.balancing.clock.due_at = float("inf")
    for _ in range(size.peers - 1):
        joined = len(space.members)
        while len(space.members) == joined:
            space.net.event(most_loaded(space), Trigger())
            space.run(TICK, TICK)
    return result(space)


def most_loaded(space: BalancedKeySpace) -> str:
    loads = space.loads()
    return max(loads, key=lambda each: (loads[each], each))


def by_themselves(size: Size, seed: int, strategy: str, seconds: float = INSERTION, **settings: Any) -> Result:
    """Every peer decides for itself, until the pool is empty or nothing happens any more.

    The quadruples arrive while they do, in ``seconds``; 0: before.
    """
    space = network(size, seed, strategy, stored=not seconds, cut="centroid", **settings)
    waiting = [] if not seconds else items(size.quadruples // OF_A_TWEET, seed)
    each = -(-len(waiting) // max(1, round(seconds / TICK)))
    joined, since = 1, 0.0
    while waiting or (joined < size.peers and space.net.now - since < PERIOD * PATIENCE):
        space.insert(waiting[:each])
        waiting = waiting[each:]
        space.run(TICK, TICK)
        if len(space.members) > joined or waiting:
            joined, since = len(space.members), space.net.now
    return result(space)


def result(space: BalancedKeySpace, criterion: str = "items") -> Result:
    return Result(ordered(space.loads(criterion).values()), space.net.now, space.mails)


def ordered(loads: Any) -> tuple[float, ...]:
    return tuple(sorted(loads, reverse=True))


def mean_loads(results: Sequence[Result]) -> list[float]:
    """Of the heaviest peer, of the second, and so on, over all seeds."""
    return [fmean(each) for each in zip(*(result.loads for result in results), strict=True)]
