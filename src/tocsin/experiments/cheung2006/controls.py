"""Broken components that the verdicts have to notice; none of them is in a catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from msgspec.structs import replace

from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.strategies.cheung2006.composition import MIGRATES, Composition, TwoSteps
from tocsin.balancing.strategies.cheung2006.detection.indices import Offload
from tocsin.balancing.strategies.cheung2006.estimation.press import Profile
from tocsin.balancing.strategies.cheung2006.offload.bound import most
from tocsin.balancing.strategies.cheung2006.offload.guard import OffloadGuard
from tocsin.balancing.strategies.cheung2006.offload.pair import Pair


@dataclass
class RandomOffload:
    """Half of the subscriptions, chosen at random, and of each as many subscribers as chance says: a control."""

    actions: ClassVar[frozenset[ActionKind]] = MIGRATES
    seed: int = 0

    def select(self, pair: Pair, overloaded: bool, guards: Sequence[OffloadGuard]) -> None:
        rng = Random(f"{self.seed}/{pair.ours}")
        for number in rng.sample(sorted(pair.candidates), (len(pair.candidates) + 1) // 2):
            count = min(most(pair, number), rng.randint(1, pair.candidates[number]))
            if count:
                pair.offload(number, count)


@dataclass
class NoiseEstimator:
    """Random bit vectors of the same length: a control."""

    def estimate(self, sampled: Profile, rng: Random) -> Profile:
        vectors = {number: rng.getrandbits(max(1, sampled.samples)) for number in sampled.vectors}
        return replace(sampled, vectors=vectors, accepting=rng.getrandbits(max(1, sampled.samples)))


#: By name: what runs instead of the thesis' components.
SABOTAGES: dict[str, Composition] = {
    "PRESS returns noise": Composition(estimator=NoiseEstimator()),
    "offload by chance": Composition(dict.fromkeys(Offload, RandomOffload())),
    "no guard": Composition(guards=()),
    "no stabilising": Composition(detector=TwoSteps(0)),
    "nothing moves": Composition({}),
}
#: The figures that a broken component must turn to "not reproduced": tests hold that. The guard matters where a heavy
#: subscription decides; in the local experiment nothing depends on it.
DEPENDENT: dict[str, tuple[str, ...]] = {
    "PRESS returns noise": ("T-4.1", "T-5.3", "T-5.4", "T-5.12"),
    "offload by chance": ("T-5.3", "T-5.12", "T-5.15"),
    "no guard": ("T-4.2",),
    "no stabilising": ("T-5.3", "T-5.15"),
    "nothing moves": ("T-5.3", "T-5.4", "T-5.12"),
}
