"""The strategies of Antoine et al. for the peers of a key space, by name, each as its components."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.balancing.host.actions import Redirect, Replicate, Split
from tocsin.balancing.host.detector import Absolute, Relative
from tocsin.balancing.host.exchanger import Exchanger, PullFromRandom, PushToNeighbours, Silent
from tocsin.balancing.host.guards import AtOnce, NeverAbove
from tocsin.balancing.host.host import Composition
from tocsin.balancing.host.managers import Concern
from tocsin.balancing.host.messages import Key, Recipient
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.antoine2014 import bharambe, byers, eventcloud, gupta, rao
from tocsin.errors import NotFound, UserError
from tocsin.overlay.balancing.item_load import ItemLoad
from tocsin.overlay.balancing.region_load import EVENTS, ITEMS, SUBSCRIPTIONS, RegionLoad
from tocsin.overlay.balancing.regions import Regions
from tocsin.overlay.keyspace.chord.chord import BITS, hashed
from tocsin.overlay.keyspace.peer import Peer

PERIODICALLY, ON_JOIN, ON_INSERTION = "periodically, on each peer", "when a peer joins", "when an item is inserted"


@dataclass
class Strategy:
    """``triggers``: when its iterations run. ``functions``: places of each item."""

    model: RegionLoad
    composition: Composition
    triggers: frozenset[str] = frozenset({PERIODICALLY})
    functions: int = 1


def composed(concerns: Sequence[Concern], exchanger: Exchanger, **more: Any) -> Composition:
    """With what all of them need: regions change their place one at a time, and only to peers that have less."""
    times = {"exchange_every": 2.0, "balance_every": 10.0, "lifetime": 30.0, "timeout": 30.0}
    return Composition(concerns, exchanger, [AtOnce(1), Regions(), *more.pop("guards", ())], **(times | more))


def random_id(scope: Scope) -> Recipient:
    return Key(scope.rng.getrandbits(BITS))


def directory(scope: Scope, number: int) -> Recipient:
    return Key(hashed(f"directory {number}"))


def rao_one_to_one(peer: Peer, ring: str, threshold: float = 0.0, slack: float = 0.1) -> Strategy:
    detector = rao.HeavyOrLight(threshold or None, slack)
    concern = Concern(ITEMS, detector, rao.OneToOne(detector, random_id))
    more = {"units": True, "threshold": threshold or None, "balance_every": 5.0, "guards": [NeverAbove()]}
    return Strategy(RegionLoad(peer, ring), composed([concern], Silent(), **more))


def rao_one_to_many(
    peer: Peer, ring: str, threshold: float = 0.0, slack: float = 0.1, directories: int = 1
) -> Strategy:
    detector = rao.HeavyOrLight(threshold or None, slack)
    exchanger = rao.LightToDirectory(detector, int(directories), directory)
    concern = Concern(ITEMS, detector, rao.OneToMany(exchanger))
    more = {"threshold": threshold or None, "balance_every": 5.0, "guards": [NeverAbove()]}
    return Strategy(RegionLoad(peer, ring), composed([concern], exchanger, **more))


def rao_many_to_many(
    peer: Peer, ring: str, threshold: float = 0.0, slack: float = 0.1, directories: int = 1
) -> Strategy:
    detector = rao.HeavyOrLight(threshold or None, slack)
    exchanger = rao.LightToDirectory(detector, int(directories), directory, everyone=True)
    concern = Concern(ITEMS, rao.Directory(detector), rao.ManyToMany(detector))
    more = {"units": True, "threshold": threshold or None, "advises": True, "guards": [NeverAbove()]}
    return Strategy(RegionLoad(peer, ring), composed([concern], exchanger, **more))


def gupta_joins(peer: Peer, ring: str, k: int = 4) -> Strategy:
    """Its iterations run when a peer joins; the clock does nothing that the detector would not refuse."""
    concerns = [
        Concern(SUBSCRIPTIONS, gupta.OnJoin(), gupta.JoinHeaviest(Split, probe=random_id)),
        Concern(EVENTS, gupta.OnJoin(), gupta.JoinHeaviest(Replicate, probe=random_id)),
    ]
    return Strategy(RegionLoad(peer, ring), composed(concerns, gupta.HeaviestGossip(int(k))), frozenset({ON_JOIN}))


def bharambe_rejoins(peer: Peer, ring: str, alpha: float = 1.4143, samples: int = 4, ttl: int = 4) -> Strategy:
    model = RegionLoad(peer, ring)
    detector = bharambe.LocalLoad(alpha, lambda scope: model.around)
    exchanger = bharambe.Sampling(int(samples), int(ttl), lambda scope: model.around)
    concern = Concern(ITEMS, detector, bharambe.LeaveAndRejoin(detector))
    return Strategy(model, composed([concern], exchanger, guards=[NeverAbove()]))


def byers_choices(peer: Peer, ring: str, d: int = 2) -> Strategy:
    model = ItemLoad(peer, ring, int(d))
    choices = byers.Choices(int(d), lambda scope, key, d: [Key(hashed(key, each)) for each in range(1, d)])
    concerns = [
        Concern(ITEMS, byers.OnInsertion(), byers.LeastLoaded(choices, Redirect)),
        Concern(ITEMS, Relative(1.1, 0.9), byers.Shedding(model)),
        Concern(ITEMS, Relative(1.1, 0.9), byers.Stealing(model)),
    ]
    exchanger = PullFromRandom(2, 3)
    triggers = frozenset({ON_INSERTION, PERIODICALLY})
    composition = composed(concerns, exchanger, balance_every=1.0)
    # Items are small, and each is a unit of its own: many may change their place at the same time.
    composition.guards = [AtOnce(64)]
    return Strategy(model, composition, triggers, int(d))


def eventcloud_absolute(
    peer: Peer, ring: str, threshold: float = 3125.0, cut: str = "centroid", pool: Sequence[str] = ()
) -> Strategy:
    concern = Concern(ITEMS, Absolute(threshold), eventcloud.FromPool(pool, cut))
    return Strategy(RegionLoad(peer, ring), composed([concern], Silent()))


def eventcloud_relative(
    peer: Peer, ring: str, k1: float = 1.1, cut: str = "centroid", pool: Sequence[str] = ()
) -> Strategy:
    concern = Concern(ITEMS, eventcloud.NeighboursEstimate(k1), eventcloud.FromPool(pool, cut))
    return Strategy(RegionLoad(peer, ring), composed([concern], PushToNeighbours()))


STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "rao-one-to-one": rao_one_to_one,
    "rao-one-to-many": rao_one_to_many,
    "rao-many-to-many": rao_many_to_many,
    "gupta": gupta_joins,
    "bharambe": bharambe_rejoins,
    "byers": byers_choices,
    "eventcloud-absolute": eventcloud_absolute,
    "eventcloud-relative": eventcloud_relative,
}


def make(name: str, peer: Peer, ring: str, settings: Mapping[str, Any] | None = None) -> Strategy:
    """Refuses what does not exist, with what does."""
    if name not in STRATEGIES:
        raise NotFound("strategy", name, hint=f"for key spaces there are: {', '.join(STRATEGIES)}")
    known = [each for each in inspect.signature(STRATEGIES[name]).parameters if each not in ("peer", "ring")]
    for each in settings or {}:
        if each not in known:
            raise UserError(f"{name} has no setting {each!r}", hint=f"it has: {', '.join(known)}")
    return STRATEGIES[name](peer, ring, **(settings or {}))
