"""Broken versions, to test the verdicts with. They are in no catalogue: ``Runs.broken`` gets them explicitly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from types import MappingProxyType

from tocsin.balancing.deadlines.strategies import make
from tocsin.balancing.host.host import Composition
from tocsin.balancing.strategies.tao2013.distribution import Distribution
from tocsin.balancing.strategies.tao2013.metrics import DOWNLINK, UPLINK, LoadTable, TopicUse
from tocsin.balancing.strategies.tao2013.offload import Offload, Order
from tocsin.balancing.strategies.tao2013.priorities import ordered
from tocsin.experiments.tao2013.runs import MAKERS, PEER, TAO, Maker
from tocsin.simulation.deadlines.setup import Setup
from tocsin.simulation.deadlines.world import Options


def unbalanced(name: str) -> Maker:
    return lambda setup: replace(MAKERS[name](setup), composition=None)


def static(setup: Setup) -> Options:
    """An upper threshold of the uplink instead of one of each queue."""
    swapped = {"queue_criterion": UPLINK, "queue_detector": "static-threshold"}
    return replace(MAKERS[TAO](setup), composition=lambda: make("tao", swapped))


def with_order(order: Order) -> Composition:
    composition = make("tao")
    for concern in composition.concerns:
        if isinstance(concern.balancer, Offload):
            concern.balancer.order = order
    return composition


def reversed_order(table: LoadTable, metric: str, late: frozenset[str], rng: Random) -> Sequence[TopicUse]:
    return list(reversed(ordered(table, metric, late)))


def any_order(table: LoadTable, metric: str, late: frozenset[str], rng: Random) -> Sequence[TopicUse]:
    return rng.sample(list(table), len(table.uses))


def reversed_priorities(setup: Setup) -> Options:
    return replace(MAKERS[TAO](setup), composition=lambda: with_order(reversed_order))


def relative_room(table: LoadTable) -> float:
    return 2 - table.metric(UPLINK) - table.metric(DOWNLINK)


def relative(setup: Setup) -> Options:
    return replace(MAKERS[TAO](setup), distribution=Distribution(setup.correlated, room=relative_room))


def random_choices(setup: Setup) -> Options:
    """Both the edge of a newcomer and the bundles that leave."""
    rng = Random("choices")
    distribution = Distribution(setup.correlated, room=lambda table: 1e9 * rng.random())
    return replace(MAKERS[TAO](setup), distribution=distribution, composition=lambda: with_order(any_order))


SABOTAGES: Mapping[str, Mapping[str, Maker]] = MappingProxyType(
    {
        "nothing is balanced": {TAO: unbalanced(TAO)},
        "the dynamic threshold is a static one": {TAO: static},
        "priorities are reversed": {TAO: reversed_priorities},
        "free capacity is relative": {TAO: relative},
        "choices are random": {TAO: random_choices},
        "PEER does nothing": {PEER: unbalanced(PEER)},
    }
)
