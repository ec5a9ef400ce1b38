"""The strategies of heads and edges, by name, each as its components.

``tao``: the paper's. ``peer``: static thresholds and load differences, which it compares itself with. ``slack``: ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tocsin.balancing.catalogue.blueprint import Blueprint, StageParts
from tocsin.balancing.catalogue.places import DEADLINE_EDGES, DEADLINE_HEADS, catalogue
from tocsin.balancing.catalogue.use import use
from tocsin.balancing.host.host import Composition
from tocsin.balancing.strategies.tao2013.metrics import DOWNLINK, MATCHING, QUEUE, UPLINK
from tocsin.errors import NotFound

#: Seconds between two measurements, which the clocks of a host must not exceed with their jitter.
PERIOD, OFTEN = 1.0, 0.5
TIMEOUT, LIFETIME = 30.0, 3.0


@dataclass(frozen=True)
class EdgeStrategy:
    """``smoothing``: weight of the newest rate. ``distributes``: newcomers are allocated by their load, and do not all
    join the first broker. ``static_uplink``: brokers do not accept load beyond an upper threshold of their uplink."""

    blueprint: Blueprint
    smoothing: float = 1.0
    distributes: bool = True
    static_uplink: bool = False


def static(name: str, criterion: str, balancer: str) -> StageParts:
    return StageParts(name, criterion, use("static-threshold"), use(balancer))


def with_deadlines(detector: str) -> Blueprint:
    """Queue depth has an upper threshold only, and the uplink none: so there is no stage of the uplink."""
    stages = (
        StageParts("queue", QUEUE, use(detector), use("offload")),
        static("downlink", DOWNLINK, "offload"),
        static("matching", MATCHING, "offload"),
    )
    return Blueprint(stages, use("to-head"), (use("at-once"),))


PEER = Blueprint(
    (
        static("uplink", UPLINK, "even-out"),
        static("matching", MATCHING, "even-out"),
        StageParts("difference", UPLINK, use("load-difference"), use("even-out")),
    ),
    use("to-cluster"),
    (use("at-once"), use("settle")),
)
STRATEGIES: Mapping[str, EdgeStrategy] = MappingProxyType(
    {
        "tao": EdgeStrategy(with_deadlines("dynamic-threshold")),
        "peer": EdgeStrategy(PEER, smoothing=0.75, distributes=False, static_uplink=True),
        "slack": EdgeStrategy(with_deadlines("deadline-slack")),
    }
)
OF_HEADS = Blueprint(
    (static("downlink", DOWNLINK, "offload-publishers"), static("uplink", UPLINK, "offload-publishers")),
    use("on-request"),
    (use("at-once"),),
)


def strategy(name: str) -> EdgeStrategy:
    if name not in STRATEGIES:
        raise NotFound("strategy", name, hint=f"among edges there are: {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


def make(name: str, components: Mapping[str, Any] | None = None) -> Composition:
    """``components``: those that replace the strategy's own. Refuses what does not fit, with what would."""
    return composed(DEADLINE_EDGES, strategy(name).blueprint, components)


def make_head(components: Mapping[str, Any] | None = None) -> Composition:
    return composed(DEADLINE_HEADS, OF_HEADS, components)


def composed(place: str, blueprint: Blueprint, components: Mapping[str, Any] | None) -> Composition:
    _, parts = catalogue(place).compose(blueprint, components)
    return Composition(
        parts.concerns,
        parts.exchanger,
        parts.guards or (),
        exchange_every=OFTEN,
        balance_every=OFTEN,
        lifetime=LIFETIME,
        timeout=TIMEOUT,
    )
