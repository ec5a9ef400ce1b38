"""Every strategy on the key space of its own paper, with a skewed load, ready to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from msgspec import structs

from tocsin.experiments.antoine2014.network import Result, network, result
from tocsin.experiments.antoine2014.network import Size as NetworkSize
from tocsin.experiments.antoine2014.quadruples import OF_A_TWEET, items
from tocsin.overlay.balancing import strategies
from tocsin.overlay.balancing.balanced_peer import Insert
from tocsin.overlay.balancing.strategies import Strategy
from tocsin.overlay.keyspace import converged
from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace.can.boxes import Space
from tocsin.overlay.keyspace.can.can import Can
from tocsin.overlay.keyspace.chord.chord import hashed
from tocsin.overlay.keyspace.mercury.attribute import Attribute
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.overlay.keyspace.peer import Peer
from tocsin.simulation.keyspaces.balanced import SETTINGS, BalancedKeySpace, one_and_idle

#: Changes the strategy of a peer before it starts.
Change = Callable[[Strategy], Strategy]


@dataclass(frozen=True)
class Size:
    """``virtual``: servers of each peer, where there are such. ``period``: seconds after which a member looks after its
    ring again; where no machine fails, this may be long, and costs most of the time of a large network."""

    peers: int
    items: int
    seconds: float = 120.0
    virtual: int = 5
    period: float = SETTINGS.period

    @property
    def settings(self) -> Settings:
        return structs.replace(SETTINGS, period=self.period)


@dataclass
class Arena:
    """``criterion``: what the strategy balances. ``keys`` of all items; ``places``: they have several."""

    space: BalancedKeySpace
    criterion: str
    keys: list[str]
    places: bool = False

    def result(self) -> Result:
        return result(self.space, self.criterion)


def unchanged(strategy: Strategy) -> Strategy:
    return strategy


def build(name: str, size: Size, seed: int, change: Change = unchanged) -> Arena:
    family = name.split("-")[0]
    return FAMILIES[family](name, size, seed, change)


def _space(
    peers: dict[str, Peer], ring: str, name: str, seed: int, change: Change, **settings: Any
) -> BalancedKeySpace:
    for peer in peers.values():
        peer.handle(ev.Aim(ring, len(peer.members)), 0.0)
    return BalancedKeySpace(peers, ring, lambda peer: change(strategies.make(name, peer, ring)), seed)


def rao(name: str, size: Size, seed: int, change: Change) -> Arena:
    """Chord, with hashed keys: the regions of its virtual servers differ in width, and so in load."""
    peers = converged.chord(size.peers, Random(f"chord {seed}"), size.settings, virtual=size.virtual)
    space = _space(peers, "chord", name, seed, change)
    stored = [Item(f"i{n}", (hashed(f"{seed} {n}"),), n) for n in range(size.items)]
    space.put(stored)
    return Arena(space, "items", [each.id for each in stored])


def bharambe(name: str, size: Size, seed: int, change: Change) -> Arena:
    """A hub of the attribute *followers*, log-normal, with peers at random places."""
    rng, followers = Random(f"hub {seed}"), Attribute("followers", 0.0, 5_000.0)
    peers = converged.mercury(size.peers, rng, size.settings)
    space = _space(peers, "hub", name, seed, change)
    stored = [Item(f"i{n}", (followers.place(rng.lognormvariate(5.298, 2)),), n) for n in range(size.items)]
    space.put(stored)
    return Arena(space, "items", [each.id for each in stored])


def byers(name: str, size: Size, seed: int, change: Change) -> Arena:
    """Chord, one region for each peer; items are inserted by random peers in the first half of the time."""
    rng = Random(f"choices {seed}")
    space = _space(converged.chord(size.peers, rng, size.settings), "chord", name, seed, change)
    keys, hosts = [f"k{seed}-{n}" for n in range(size.items)], list(space.peers)
    steps = max(1, int(size.seconds / 2))
    for step in range(steps):
        for key in keys[step * size.items // steps : (step + 1) * size.items // steps]:
            space.net.command(rng.choice(hosts), lambda call, key=key: Insert(call, key, key))
        space.run(1.0, 1.0)
    return Arena(space, "items", keys, places=True)


def gupta(name: str, size: Size, seed: int, change: Change) -> Arena:
    """A CAN of two attributes, whose first peer has all subscriptions; most of them are close to one corner.

    The other peers join one after the other in the first three quarters of the time.
    """
    rng, space_of = Random(f"zones {seed}"), Space(2, 1 << 32)
    peers = one_and_idle(Can(space_of), "zones", size.peers, rng, size.settings)
    stored = []
    for n in range(size.items):
        lows = [int(rng.random() ** 3 * space_of.size) for _ in range(2)]
        width = space_of.size // 100
        span = tuple((low, min(low + 1 + rng.randrange(width), space_of.size)) for low in lows)
        stored.append(Item(f"s{n}", tuple(lows), "p00", 1, span))
    space = BalancedKeySpace(peers, "zones", lambda peer: change(strategies.make(name, peer, "zones")), seed)
    space.store(next(iter(peers)), stored)
    for number, each in enumerate(space.peers.values()):
        each.join_at = number * 0.75 * size.seconds / size.peers
    return Arena(space, "subscriptions", [each.id for each in stored])


def eventcloud(name: str, size: Size, seed: int, change: Change) -> Arena:
    """Quadruples, all of them on the first peer."""
    shape = NetworkSize(size.items // OF_A_TWEET * OF_A_TWEET, size.peers)
    settings: dict[str, Any] = {"threshold": shape.ideal} if name.endswith("absolute") else {}
    space = network(shape, seed, name, change=change, timing=size.settings, **settings)
    return Arena(space, "items", [each.id for each in items(shape.quadruples // OF_A_TWEET, seed)])


FAMILIES: dict[str, Callable[[str, Size, int, Change], Arena]] = {
    "rao": rao,
    "gupta": gupta,
    "bharambe": bharambe,
    "byers": byers,
    "eventcloud": eventcloud,
}
