"""The components of edges that balance content subscriptions, and the thesis' strategy as their names.

a) criteria: input utilisation, matching delay and output utilisation; processor and memory only as overload.

b) load state estimation: overloaded above a threshold of any of four ratios; imbalanced where an index exceeds that of
another broker by more than a threshold.

c) decision: at random intervals, and when a broker that is available publishes its load.

d) method: subscribers migrate in a session of two brokers, which begins before it is known what to move.

e) load moved: by input, members of the covering subscription set; by matching, the least traffic first; by output,
what the acceptor covers first.

f) target: the least loaded by the overloaded resource, or the broker with the largest difference.

g) exchange: PIE, pushed every period if it has news.

h) recipients: the edges and the head of the cluster, and those of another cluster in a session of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.balancing.catalogue.blueprint import Blueprint, StageParts
from tocsin.balancing.catalogue.catalogue import Catalogue
from tocsin.balancing.catalogue.component import HEAVY, Component, Kind, Reach
from tocsin.balancing.catalogue.places import EDGES
from tocsin.balancing.catalogue.places import catalogue as at_place
from tocsin.balancing.catalogue.use import use
from tocsin.balancing.host.actions import ActionKind, Migrate
from tocsin.balancing.strategies.cheung2006.composition import (
    Composition,
    InputOffload,
    MatchOffload,
    OutputOffload,
    PieExchanger,
    PressEstimator,
    TwoSteps,
)
from tocsin.balancing.strategies.cheung2006.detection.indices import Indices, Offload
from tocsin.balancing.strategies.cheung2006.offload.guard import InputNotAbove
from tocsin.balancing.strategies.cheung2006.parameters import Parameters, parameters
from tocsin.errors import NotFound

STRATEGY = "cheung"
EXECUTES = frozenset({ActionKind.MIGRATE})
_INPUT, _MATCH, _OUTPUT = (each.value for each in (Offload.INPUT, Offload.MATCH, Offload.OUTPUT))

COMPONENTS = (
    Component(Kind.MODEL, "press", PressEstimator),
    Component(Kind.CRITERION, _INPUT, Indices, fixed=True, text="Publications a second, over those it can match."),
    Component(Kind.CRITERION, _MATCH, Indices, fixed=True, text="Seconds for which a publication is matched."),
    Component(Kind.CRITERION, _OUTPUT, Indices, fixed=True, text="Bytes a second that go out, over the bandwidth."),
    Component(Kind.EXCHANGER, "pie", PieExchanger, reach=Reach.EVERY_PEER),
    Component(Kind.DETECTOR, "two-steps", TwoSteps, finds=HEAVY, reach=Reach.EVERY_PEER),
    Component(Kind.BALANCER, "input-offload", InputOffload, acts_on=HEAVY),
    Component(Kind.BALANCER, "match-offload", MatchOffload, acts_on=HEAVY),
    Component(Kind.BALANCER, "output-offload", OutputOffload, acts_on=HEAVY),
    Component(Kind.GUARD, "input-not-above", InputNotAbove),
    Component(Kind.ACTION, ActionKind.MIGRATE.value, Migrate, fixed=True),
)


def catalogue() -> Catalogue:
    return Catalogue(EDGES, COMPONENTS, EXECUTES)


def blueprint(name: str = STRATEGY) -> Blueprint:
    """The names of its components."""
    if name != STRATEGY:
        raise NotFound("strategy", name, hint=f"at edges there is: {STRATEGY}")
    stages = tuple(
        StageParts(each, each, use("two-steps"), use(f"{each}-offload")) for each in (_INPUT, _MATCH, _OUTPUT)
    )
    return Blueprint(stages, use("pie"), (use("input-not-above"),), use("press"))


def make(
    name: str = STRATEGY, settings: Mapping[str, float] | None = None, components: Mapping[str, Any] | None = None
) -> tuple[Composition, Parameters]:
    """``settings``: of Table 5.2. ``components``: those that replace the strategy's own. Refuses what does not fit."""
    given = parameters(dict(settings or {}))
    _, parts = at_place(EDGES).compose(blueprint(name), components)
    algorithms = {Offload(each.criterion): each.balancer for each in parts.concerns}
    composition = Composition(
        algorithms,  # type: ignore[arg-type]
        parts.guards or (),
        parts.model,
        parts.concerns[0].detector,  # type: ignore[arg-type]
        parts.exchanger,
    )
    return composition, given
