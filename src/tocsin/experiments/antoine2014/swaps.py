"""Each component of a strategy exchanged for every other that fits, and what must hold afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tocsin.balancing.host.actions import Redirect, Replicate, Split
from tocsin.balancing.host.detector import Absolute, Relative
from tocsin.balancing.host.exchanger import PullFromRandom, PushToNeighbours, Silent
from tocsin.balancing.host.host import check
from tocsin.balancing.host.managers import Concern
from tocsin.balancing.host.messages import Key
from tocsin.balancing.strategies.antoine2014 import bharambe, byers, eventcloud, gupta, rao
from tocsin.errors import UserError
from tocsin.experiments.antoine2014.arena import Arena, Size, build
from tocsin.overlay.balancing.execution import executes
from tocsin.overlay.balancing.item_load import ItemLoad
from tocsin.overlay.balancing.region_load import RegionLoad
from tocsin.overlay.balancing.strategies import STRATEGIES, Strategy, directory, random_id
from tocsin.overlay.keyspace.chord.chord import hashed
from tocsin.overlay.keyspace.model.redirection import Pointer

SMALL = Size(peers=5, items=30, seconds=24.0, virtual=2)
#: Seconds after which every session and every lookup has ended.
QUIET = 42.0
IDLE = ("p02", "p03", "p04")


def detectors(model: RegionLoad) -> dict[str, Any]:
    return {
        "absolute": Absolute(8.0),
        "relative": Relative(),
        "neighbours": eventcloud.NeighboursEstimate(),
        "heavy or light": rao.HeavyOrLight(),
        "directory": rao.Directory(),
        "local load": bharambe.LocalLoad(around=lambda scope: model.around),
        "on join": gupta.OnJoin(),
        "on insertion": byers.OnInsertion(),
    }


def exchangers(model: RegionLoad) -> dict[str, Any]:
    return {
        "silent": Silent(),
        "push to neighbours": PushToNeighbours(),
        "pull from random": PullFromRandom(2, 2),
        "light to directory": rao.LightToDirectory(locate=directory),
        "all to directory": rao.LightToDirectory(locate=directory, everyone=True),
        "heaviest gossip": gupta.HeaviestGossip(),
        "sampling": bharambe.Sampling(around=lambda scope: model.around),
    }


def balancers(model: RegionLoad) -> dict[str, Any]:
    found: dict[str, Any] = {
        "one to one": rao.OneToOne(probe=random_id),
        "one to many": rao.OneToMany(rao.LightToDirectory(locate=directory)),
        "many to many": rao.ManyToMany(),
        "join and split": gupta.JoinHeaviest(Split),
        "join and replicate": gupta.JoinHeaviest(Replicate),
        "leave and rejoin": bharambe.LeaveAndRejoin(),
        "half the difference": bharambe.HalfTheDifference(),
        "from the pool": eventcloud.FromPool(IDLE),
    }
    if isinstance(model, ItemLoad):
        choices = byers.Choices(2, lambda scope, key, d: [Key(hashed(key, each)) for each in range(1, d)])
        found["least loaded"] = byers.LeastLoaded(choices, Redirect)
        found["shedding"], found["stealing"] = byers.Shedding(model), byers.Stealing(model)
    return found


@dataclass(frozen=True)
class Swap:
    """``part`` of a concern, or the exchanger, becomes the component of this name."""

    strategy: str
    part: str
    concern: int
    component: str

    def __str__(self) -> str:
        return f"{self.strategy}: {self.part} {self.concern + 1} is {self.component}"

    def apply(self, strategy: Strategy) -> Strategy:
        """In place: nothing else of the strategy is touched."""
        composition, new = strategy.composition, PARTS[self.part](strategy.model)[self.component]
        if self.part == "exchanger":
            composition.exchanger = new
            return strategy
        concerns = list(composition.concerns)
        concerns[self.concern] = Concern(**{**vars(concerns[self.concern]), self.part: new})
        return replace(strategy, composition=replace(composition, concerns=concerns))


PARTS: dict[str, Callable[[RegionLoad], dict[str, Any]]] = {
    "detector": detectors,
    "exchanger": exchangers,
    "balancer": balancers,
}


def swaps(name: str) -> list[Swap]:
    """All that fit: a host refuses a balancer whose actions it cannot execute."""
    sample = next(iter(build(name, SMALL, 1).space.peers.values())).strategy
    found = []
    for part, components in PARTS.items():
        for concern in range(len(sample.composition.concerns) if part != "exchanger" else 1):
            for component, made in components(sample.model).items():
                own = sample.composition.concerns[concern]
                now = sample.composition.exchanger if part == "exchanger" else getattr(own, part)
                swap = Swap(name, part, concern, component)
                if type(made) is not type(now) and fits(swap.apply(sample)):
                    found.append(swap)
    return found


def fits(strategy: Strategy) -> bool:
    try:
        check(strategy.composition, strategy.model, executes(strategy.model))
    except UserError:
        return False
    return True


def all_swaps() -> list[Swap]:
    return [swap for name in STRATEGIES for swap in swaps(name)]


def attempt(swap: Swap, seed: int) -> list[str]:
    """What is wrong after a run with the swap, once it is quiet."""
    return finished(build(swap.strategy, SMALL, seed, swap.apply), SMALL.seconds)


def finished(arena: Arena, seconds: float) -> list[str]:
    arena.space.run(seconds, 1.0)
    for each in arena.space.peers.values():
        each.rest()
    arena.space.run(QUIET, 3.0)
    return list(broken(arena))


def broken(arena: Arena) -> Iterator[str]:
    """The contract of all strategies: no item lost, one owner for each key, and every session has ended."""
    space = arena.space
    members = space.members
    if space.sessions or any(len(each.execution) for each in space.peers.values()):
        yield f"{space.sessions} sessions are open"
    overlay, rng = next(iter(space.peers.values())).peer.membership.overlays[space.ring], Random(7)
    for point in [overlay.anywhere(rng) for _ in range(20)]:
        owners = [each.me.id for each in members if each.owns(point)]
        if len(owners) != 1:
            yield f"a key has the owners {owners}"
    stored: dict[str, int] = {}
    for item in (item for member in members for item in member.own_items()):
        if not isinstance(item.value, Pointer):
            key = item.id.rpartition("#")[0] if arena.places else item.id
            stored[key] = stored.get(key, 0) + 1 if item.span is None else 1
    if lost := sorted(set(arena.keys) - set(stored)):
        yield f"{len(lost)} items are lost: {lost[0]}"
    if twice := sorted(key for key, count in stored.items() if count > 1):
        yield f"{len(twice)} items are stored twice: {twice[0]}"
