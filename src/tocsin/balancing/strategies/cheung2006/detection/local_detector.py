"""The detector of a broker: overload, stability, imbalance (figure 3.5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tocsin.balancing.strategies.cheung2006.detection.imbalance import imbalanced
from tocsin.balancing.strategies.cheung2006.detection.indices import Indices
from tocsin.balancing.strategies.cheung2006.detection.overload import Partner, overloaded, relievers, unavailable
from tocsin.balancing.strategies.cheung2006.detection.pie import Entries
from tocsin.balancing.strategies.cheung2006.detection.stability import Stability
from tocsin.balancing.strategies.cheung2006.detection.status import LOCAL, State, Status
from tocsin.balancing.strategies.cheung2006.parameters import Parameters


@dataclass(frozen=True)
class Detection:
    """``overloaded``: nothing in the list means that the head has to be asked."""

    partners: list[Partner] = field(default_factory=list)
    overloaded: bool = False


@dataclass
class LocalDetector:
    """``stabilizing``: whether it waits for load to become stable; without that it is what a sabotage makes of it."""

    parameters: Parameters
    rng: Random
    stabilizing: bool = True
    state: State = field(default_factory=lambda: State(LOCAL))
    smoothed: Indices | None = None
    due_at: float = 0.0

    def __post_init__(self) -> None:
        self.stability = Stability(self.parameters)

    def sleep(self, now: float) -> None:
        """Until a random time, so that brokers do not act in step."""
        self.due_at = now + self.rng.uniform(self.parameters.local_detection_min, self.parameters.local_detection_max)

    def detect(self, indices: Indices, known: Entries, now: float) -> Detection:
        self.sleep(now)
        state, parameters = self.state, self.parameters
        if state.status is Status.BUSY:
            return Detection()
        self.smoothed = own = indices.smoothed(self.smoothed, parameters.smoothing)
        if unavailable(own, parameters):
            state.change(Status.UNAVAILABLE, now)
        elif state.status is Status.UNAVAILABLE:
            state.change(Status.STABILIZING, now)
        action = overloaded(own, parameters)
        if action is not None:
            return Detection(relievers(action, known), True)
        if state.status is Status.STABILIZING and (not self.stabilizing or self.stability.stable(state.since, now)):
            state.change(Status.OK, now)
        # A broker that is OK gives precedence to those that are overloaded.
        if state.status is not Status.OK or known.unavailable():
            return Detection()
        ratio, delay = parameters.local_ratio_threshold, parameters.local_delay_threshold
        return Detection(imbalanced(own, known, parameters, ratio, delay))
