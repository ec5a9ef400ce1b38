"""The components of edges, whose subscribers migrate in bundles of a topic, and of heads, whose publishers do."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.balancing.catalogue.catalogue import Catalogue
from tocsin.balancing.catalogue.component import HEAVY, Component, Kind, Reach
from tocsin.balancing.catalogue.places import DEADLINE_EDGES, DEADLINE_HEADS
from tocsin.balancing.host.actions import ActionKind, AnyAction, Migrate
from tocsin.balancing.host.guards import AtOnce, InFlight, at_least
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.deadline_slack.slack import DeadlineSlack
from tocsin.balancing.strategies.tao2013.broker_report import ToCluster, ToHead
from tocsin.balancing.strategies.tao2013.dynamic_threshold import DynamicThreshold
from tocsin.balancing.strategies.tao2013.even_out import EvenOut, LoadDifference
from tocsin.balancing.strategies.tao2013.metrics import DOWNLINK, MATCHING, QUEUE, UPLINK
from tocsin.balancing.strategies.tao2013.offload import Judging, Offload, other_heads
from tocsin.balancing.strategies.tao2013.static_threshold import StaticThreshold
from tocsin.balancing.strategies.tao2013.topic_load import TopicLoad

#: What a head or an edge can carry out.
EXECUTES = frozenset({ActionKind.MIGRATE})

_QUEUE, _LINKS = frozenset({QUEUE}), frozenset({DOWNLINK, UPLINK})
_STATIC = frozenset({DOWNLINK, MATCHING, UPLINK})


@dataclass
class OfHeads(ToHead):
    """Heads answer pulls with all of their metrics, and push nothing: a head that is overloaded asks the others."""

    def recipients(self, scope: Scope) -> tuple[str, ...]:
        """None, but for those that a balancer asks."""
        return ()


def offload(detector: Judging) -> Offload:
    """Bundles leave in the order of table IV, each to the acceptor with the lowest value of the overloaded metric,
    until the broker is not overloaded; a bundle is split only if none fits."""
    return Offload(detector)


def offload_publishers(detector: Judging) -> Offload:
    """Publishers of a topic leave for other heads, in the order of the text: those without subscribers first if the
    downlink is overloaded, last if the uplink is."""
    return Offload(detector, other_heads)


def at_once(sessions: int = 1) -> AtOnce:
    """At most ``sessions`` at the same time."""
    at_least(1, sessions=sessions)
    return AtOnce(sessions)


@dataclass
class Settle:
    """No session begins within ``seconds`` of the last migration here, while loads settle."""

    seconds: float = 1.5

    def __post_init__(self) -> None:
        at_least(0, seconds=self.seconds)

    def objection(self, scope: Scope, criterion: str, action: AnyAction, in_flight: InFlight) -> str | None:
        last = max(in_flight.moved.values(), default=float("-inf"))
        return None if scope.now - last >= self.seconds else f"a migration ended less than {self.seconds:g} s ago"


DOWN = "Bits that come in a second, over the bandwidth."
UP = "Bits that leave a second, over the bandwidth; above 1, output queues grow."
MATCH = "Messages that come in a second, over those that can be matched."
DEPTH = "Messages that wait in the output queues."
EDGE_COMPONENTS = (
    Component(Kind.MODEL, "topics", TopicLoad, fixed=True, text="Subscribers in bundles of a topic, with its queue."),
    Component(Kind.CRITERION, QUEUE, TopicLoad, fixed=True, text=DEPTH),
    Component(Kind.CRITERION, DOWNLINK, TopicLoad, fixed=True, text=DOWN),
    Component(Kind.CRITERION, MATCHING, TopicLoad, fixed=True, text=MATCH),
    Component(Kind.CRITERION, UPLINK, TopicLoad, fixed=True, text=UP),
    Component(Kind.EXCHANGER, "to-cluster", ToCluster, reach=Reach.EVERY_PEER),
    Component(Kind.EXCHANGER, "to-head", ToHead, reach=Reach.DIRECTORIES),
    Component(Kind.DETECTOR, "deadline-slack", DeadlineSlack, _QUEUE, finds=HEAVY),
    Component(Kind.DETECTOR, "dynamic-threshold", DynamicThreshold, _QUEUE, finds=HEAVY),
    Component(Kind.DETECTOR, "load-difference", LoadDifference, _STATIC, finds=HEAVY, reach=Reach.EVERY_PEER),
    Component(Kind.DETECTOR, "static-threshold", StaticThreshold, _STATIC),
    Component(Kind.BALANCER, "even-out", EvenOut, _STATIC, acts_on=HEAVY, reach=Reach.EVERY_PEER),
    Component(Kind.BALANCER, "offload", offload, acts_on=HEAVY, reach=Reach.DIRECTORIES),
    Component(Kind.GUARD, "at-once", at_once),
    Component(Kind.GUARD, "settle", Settle),
    Component(Kind.ACTION, ActionKind.MIGRATE.value, Migrate, fixed=True),
)
HEAD_COMPONENTS = (
    Component(Kind.MODEL, "publishers", TopicLoad, fixed=True, text="Publishers in bundles of a topic."),
    Component(Kind.CRITERION, DOWNLINK, TopicLoad, fixed=True, text=DOWN),
    Component(Kind.CRITERION, UPLINK, TopicLoad, fixed=True, text=UP),
    Component(Kind.EXCHANGER, "on-request", OfHeads),
    Component(Kind.DETECTOR, "static-threshold", StaticThreshold, _LINKS),
    Component(Kind.BALANCER, "offload-publishers", offload_publishers, _LINKS, acts_on=HEAVY),
    Component(Kind.GUARD, "at-once", at_once),
    Component(Kind.ACTION, ActionKind.MIGRATE.value, Migrate, fixed=True),
)


def edges() -> Catalogue:
    return Catalogue(DEADLINE_EDGES, EDGE_COMPONENTS, EXECUTES)


def heads() -> Catalogue:
    return Catalogue(DEADLINE_HEADS, HEAD_COMPONENTS, EXECUTES)
