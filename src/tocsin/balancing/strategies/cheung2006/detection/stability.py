"""Whether load has become stable after a session (section 3.3.2.1)."""

from __future__ import annotations

from collections import deque

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

#: Seconds, hard-coded in the thesis too.
INTERVAL = 60.0


class Stability:
    """All three indices of the last minute, each within ``stabilize_percentage``."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._seen: deque[tuple[float, Indices]] = deque()

    def record(self, indices: Indices, now: float) -> None:
        self._seen.append((now, indices))
        while self._seen[0][0] < now - INTERVAL:
            self._seen.popleft()

    def stable(self, since: float, now: float) -> bool:
        """``since``: when the session ended. The text counts detection cycles, and Table 5.2 seconds."""
        if now - since < self._parameters.stabilize_duration:
            return False
        found = [each for _, each in self._seen]
        if not found:
            return True
        limit = self._parameters.stabilize_percentage
        normal = self._parameters.delay_normalization
        spreads = (
            _spread([each.input for each in found]),
            _spread([each.output for each in found]),
            _spread([each.matching_delay for each in found]) / normal,
        )
        return all(each <= limit for each in spreads)


def _spread(values: list[float]) -> float:
    return max(values) - min(values)
