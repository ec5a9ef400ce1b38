"""The components of a broker that balances among peers.

Left out: components that cut the range of a peer or leave and rejoin, since a broker has no place in a key space: any
subscriber can be at any broker. And the guard of capacity: loads of brokers are relative to it, and have no limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from tocsin.balancing.brokers.broker_load import DRAIN, LOAD, SUBSCRIBERS, BrokerLoad
from tocsin.balancing.brokers.drain import Draining, For, GiveAway
from tocsin.balancing.catalogue.catalogue import Catalogue
from tocsin.balancing.catalogue.component import HEAVY, LIGHT, Component, Kind, Reach
from tocsin.balancing.catalogue.places import BROKERS
from tocsin.balancing.host.actions import ActionKind, Migrate
from tocsin.balancing.host.detector import Absolute, Limiting, Relative
from tocsin.balancing.host.exchanger import PullFromRandom, PushToNeighbours, Silent
from tocsin.balancing.host.guards import AtOnce, CoolDown, NeverAbove, at_least
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.antoine2014 import bharambe, byers, rao

#: What a broker can carry out.
EXECUTES = frozenset({ActionKind.MIGRATE})

_DRAIN, _BALANCED = frozenset({DRAIN}), frozenset({LOAD, SUBSCRIBERS})
#: What a newcomer weighs is not known yet.
_NEWCOMERS = frozenset({SUBSCRIBERS})


# Detectors.


def heavy_or_light(slack: float = 0.05, threshold: float = 0.0) -> rao.HeavyOrLight:
    """Heavy above ``threshold``, else light; without one above ``1 + slack`` times the mean of the known brokers."""
    return rao.HeavyOrLight(threshold or None, slack)


@dataclass
class AtDirectory(rao.Directory):
    """A directory, with the limit that it compares with."""

    @property
    def threshold(self) -> float | None:
        return self.detector.threshold

    def limit(self, scope: Scope, criterion: str, of: LoadInformation | None = None) -> float:
        return self.detector.limit(scope, criterion, of)


def directory(slack: float = 0.05, threshold: float = 0.0) -> AtDirectory:
    """There is work where both heavy and light brokers have reported; heavy is as with heavy-or-light."""
    return AtDirectory(heavy_or_light(slack, threshold))


def local_load(alpha: float = 1.4143) -> bharambe.LocalLoad:
    """Heavy from ``alpha`` times the mean of the samples on, light below its ``alpha``-th part."""
    return bharambe.LocalLoad(alpha)


# Exchangers.


def light_to_directory(detector: Limiting, directories: int = 1) -> rao.LightToDirectory:
    """Light brokers push to a directory, which answers pulls with all that it knows."""
    return rao.LightToDirectory(cast(Any, detector), directories)


def all_to_directory(detector: Limiting, directories: int = 1) -> rao.LightToDirectory:
    """All brokers push to a directory, which answers pulls with all that it knows."""
    return rao.LightToDirectory(cast(Any, detector), directories, everyone=True)


def sampling(samples: int = 2, ttl: int = 3) -> bharambe.Sampling:
    """Pulls from ``samples`` brokers at the ends of random walks of ``ttl`` hops."""
    return bharambe.Sampling(samples, ttl)


# Balancers.


def one_to_one(detector: Limiting) -> rao.OneToOne:
    """A light broker asks a random one; if that is heavy, one of its groups comes here."""
    return rao.OneToOne(cast(Any, detector))


def one_to_many(exchanger: rao.LightToDirectory) -> rao.OneToMany:
    """A heavy broker asks a directory for light ones, and gives the heaviest group that fits to one of them."""
    return rao.OneToMany(exchanger)


def many_to_many(detector: AtDirectory | rao.HeavyOrLight, exchanger: rao.LightToDirectory) -> rao.ManyToMany:
    """A directory assigns groups of all heavy brokers to light ones, and sends them the solution."""
    return rao.ManyToMany(cast(Any, detector))


def half_the_difference(detector: bharambe.LocalLoad, most: int = 64) -> bharambe.HalfTheDifference:
    """A heavy broker gives up to ``most`` groups to the lightest that it knows, until both would have the same load."""
    at_least(1, most=most)
    return bharambe.HalfTheDifference(detector, most)


def least_loaded(detector: byers.OnInsertion, choices: int = 2) -> byers.LeastLoaded:
    """A newcomer goes to the least loaded of ``choices`` brokers, of which the one it connected to is the first."""
    return byers.LeastLoaded(byers.Choices(choices))


# Guards.


def at_once(sessions: int = 1) -> AtOnce:
    """At most ``sessions`` at the same time."""
    at_least(1, sessions=sessions)
    return AtOnce(sessions)


def never_above() -> For:
    """The target must not end above the load that the source has now, unless that is being drained."""
    return For(_BALANCED, NeverAbove())


NEWCOMER = "A subscriber has connected without a ticket, and is placed; nothing else is done."
COMPONENTS = (
    Component(Kind.MODEL, "groups", BrokerLoad, fixed=True, text="Groups of subscribers with similar subscriptions."),
    Component(Kind.CRITERION, LOAD, BrokerLoad, fixed=True, text="Bytes in and out a second, over the capacity."),
    Component(Kind.CRITERION, SUBSCRIBERS, BrokerLoad, fixed=True, text="Its subscribers, over the capacity."),
    Component(Kind.CRITERION, DRAIN, BrokerLoad, fixed=True, text="The subscribers of a broker that is being drained."),
    Component(Kind.EXCHANGER, "all-to-directory", all_to_directory, reach=Reach.DIRECTORIES),
    Component(Kind.EXCHANGER, "light-to-directory", light_to_directory),
    Component(Kind.EXCHANGER, "pull-from-random", PullFromRandom, reach=Reach.EVERY_PEER),
    Component(Kind.EXCHANGER, "push-to-neighbours", PushToNeighbours, reach=Reach.EVERY_PEER),
    Component(Kind.EXCHANGER, "sampling", sampling, reach=Reach.EVERY_PEER),
    Component(Kind.EXCHANGER, "silent", Silent),
    Component(Kind.DETECTOR, "absolute", Absolute, _BALANCED),
    Component(Kind.DETECTOR, "directory", directory, _BALANCED, finds=HEAVY, reach=Reach.DIRECTORIES),
    Component(Kind.DETECTOR, "draining", Draining, _DRAIN, finds=HEAVY),
    Component(Kind.DETECTOR, "heavy-or-light", heavy_or_light, _BALANCED),
    Component(Kind.DETECTOR, "local-load", local_load, _BALANCED, reach=Reach.EVERY_PEER),
    Component(Kind.DETECTOR, "on-insertion", byers.OnInsertion, _NEWCOMERS, finds=HEAVY, text=NEWCOMER),
    Component(Kind.DETECTOR, "relative", Relative, _BALANCED, reach=Reach.EVERY_PEER),
    Component(Kind.BALANCER, "give-away", GiveAway, _DRAIN, acts_on=HEAVY),
    Component(Kind.BALANCER, "half-the-difference", half_the_difference, _BALANCED, acts_on=HEAVY),
    Component(Kind.BALANCER, "least-loaded", least_loaded, _NEWCOMERS, acts_on=HEAVY),
    Component(
        Kind.BALANCER, "many-to-many", many_to_many, _BALANCED, reach=Reach.DIRECTORIES, units=True, advises=True
    ),
    Component(Kind.BALANCER, "one-to-many", one_to_many, _BALANCED, acts_on=HEAVY),
    Component(Kind.BALANCER, "one-to-one", one_to_one, _BALANCED, acts_on=LIGHT, units=True),
    Component(Kind.GUARD, "at-once", at_once),
    Component(Kind.GUARD, "cool-down", CoolDown),
    Component(Kind.GUARD, "never-above", never_above),
    Component(Kind.ACTION, ActionKind.MIGRATE.value, Migrate, fixed=True),
)


def catalogue() -> Catalogue:
    return Catalogue(BROKERS, COMPONENTS, EXECUTES)
