"""The components that an edge is made of; each can be exchanged for another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Protocol

from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.strategies.cheung2006.detection.indices import Offload
from tocsin.balancing.strategies.cheung2006.detection.local_detector import LocalDetector
from tocsin.balancing.strategies.cheung2006.detection.pie import Publisher
from tocsin.balancing.strategies.cheung2006.estimation.press import Profile
from tocsin.balancing.strategies.cheung2006.estimation.resources import Resources
from tocsin.balancing.strategies.cheung2006.offload import input_offload, match_offload, output_offload
from tocsin.balancing.strategies.cheung2006.offload.covering import Covering, set_of
from tocsin.balancing.strategies.cheung2006.offload.guard import InputNotAbove, OffloadGuard
from tocsin.balancing.strategies.cheung2006.offload.pair import Pair
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

MIGRATES = frozenset({ActionKind.MIGRATE})


class OffloadAlgorithm(Protocol):
    @property
    def actions(self) -> frozenset[ActionKind]: ...

    def select(self, pair: Pair, overloaded: bool, guards: Sequence[OffloadGuard]) -> None:
        """Choose what leaves, on the what-if of both brokers."""


class Estimator(Protocol):
    def estimate(self, sampled: Profile, rng: Random) -> Profile:
        """What the offload algorithms believe of the publications that were sampled."""


@dataclass
class InputOffload:
    """Members of the covering subscription set, the one first that leaves both brokers most equal."""

    actions: ClassVar[frozenset[ActionKind]] = MIGRATES

    def select(self, pair: Pair, overloaded: bool, guards: Sequence[OffloadGuard]) -> None:
        input_offload.select(pair, overloaded)


@dataclass
class MatchOffload:
    """All client subscriptions, the least traffic first, until both brokers match as fast."""

    actions: ClassVar[frozenset[ActionKind]] = MIGRATES

    def select(self, pair: Pair, overloaded: bool, guards: Sequence[OffloadGuard]) -> None:
        match_offload.select(pair, overloaded)


@dataclass
class OutputOffload:
    """First what the acceptor covers already, then what attracts more publications there."""

    actions: ClassVar[frozenset[ActionKind]] = MIGRATES

    def select(self, pair: Pair, overloaded: bool, guards: Sequence[OffloadGuard]) -> None:
        output_offload.select(pair, overloaded, guards)


@dataclass
class TwoSteps:
    """Overload by four ratios first, then differences of three indices, with a wait for stable load in between.

    ``stabilizing``: 0 leaves the wait out.
    """

    stabilizing: int = 1

    def detector(self, parameters: Parameters, rng: Random) -> LocalDetector:
        return LocalDetector(parameters, rng, bool(self.stabilizing))


@dataclass
class PieExchanger:
    """PIE: generated every period, published if an index has moved and the status is OK or has changed."""

    def publisher(self, parameters: Parameters, period: float) -> Publisher:
        return Publisher(parameters, period)


@dataclass
class PressEstimator:
    """The bit vectors as PRESS has sampled them."""

    def estimate(self, sampled: Profile, rng: Random) -> Profile:
        return sampled


def thesis_algorithms() -> dict[Offload, OffloadAlgorithm]:
    return {Offload.INPUT: InputOffload(), Offload.MATCH: MatchOffload(), Offload.OUTPUT: OutputOffload()}


@dataclass
class Composition:
    """``algorithms``: of each action; an action without one is never taken."""

    algorithms: Mapping[Offload, OffloadAlgorithm] = field(default_factory=thesis_algorithms)
    guards: Sequence[OffloadGuard] = (InputNotAbove(),)
    estimator: Estimator = field(default_factory=PressEstimator)
    detector: TwoSteps = field(default_factory=TwoSteps)
    exchanger: PieExchanger = field(default_factory=PieExchanger)

    def select(self, action: Offload, pair: Pair, overloaded: bool) -> None:
        self.algorithms[action].select(pair, overloaded, self.guards)

    def what_if(
        self,
        sampled: Profile,
        rng: Random,
        ours: Resources,
        theirs: Resources,
        covering: Covering,
        subscribers: Mapping[int, int],
        accepting: Iterable[int],
        parameters: Parameters,
    ) -> Pair:
        """Both brokers as they are; what is offloaded on it changes nothing else. ``accepting``: the acceptor's CSS."""
        profile = self.estimator.estimate(sampled, rng)
        return Pair(ours, theirs, profile, covering, subscribers, set_of(accepting), parameters)
