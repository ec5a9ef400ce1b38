"""The detector of a cluster: the average of its edges against other clusters (section 3.3.2.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from tocsin.balancing.strategies.cheung2006.detection.imbalance import imbalanced
from tocsin.balancing.strategies.cheung2006.detection.indices import Indices, mean
from tocsin.balancing.strategies.cheung2006.detection.pie import Entries, Pie
from tocsin.balancing.strategies.cheung2006.detection.status import GLOBAL, State, Status
from tocsin.balancing.strategies.cheung2006.parameters import Parameters


@dataclass
class GlobalDetector:
    parameters: Parameters
    rng: Random
    state: State = field(default_factory=lambda: State(GLOBAL))
    smoothed: Indices | None = None
    due_at: float = 0.0

    def sleep(self, now: float) -> None:
        low, high = self.parameters.global_detection_min, self.parameters.global_detection_max
        self.due_at = now + self.rng.uniform(low, high)

    def refresh(self, own: Iterable[Pie], now: float) -> None:
        """The cluster is not available while one of its edges is overloaded."""
        if self.state.status is not Status.BUSY:
            overloaded = any(pie.status is Status.UNAVAILABLE for pie in own)
            self.state.change(Status.UNAVAILABLE if overloaded else Status.OK, now)

    def detect(self, own: list[Pie], known: Entries, now: float, without: str = "") -> list[str]:
        """The heads of other clusters, in descending order of the difference; none while BUSY."""
        self.sleep(now)
        if self.state.status is Status.BUSY or not own:
            return []
        indices = mean([pie.indices for pie in own])
        self.smoothed = indices = indices.smoothed(self.smoothed, self.parameters.smoothing)
        if self.state.status is Status.OK and known.unavailable():
            return []
        ratio, delay = self.parameters.global_ratio_threshold, self.parameters.global_delay_threshold
        partners = imbalanced(indices, known, self.parameters, ratio, delay)
        return [each for each in dict.fromkeys(partner.broker for partner in partners) if each != without]
