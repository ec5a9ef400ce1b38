"""What a balancing costs in seconds, as measured."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class BalancingCost:
    """t_LB: the mean of the balancings that were measured; before the first, ``expected``."""

    expected: float = 0.0
    _measured: list[float] = field(default_factory=list)

    def add(self, seconds: float) -> None:
        self._measured.append(seconds)

    @property
    def mean(self) -> float:
        return sum(self._measured) / len(self._measured) if self._measured else self.expected
