"""The load indices of a broker or cluster, how they are smoothed, and how far two differ."""

from __future__ import annotations

from enum import Enum

import msgspec

from tocsin.balancing.strategies.cheung2006.parameters import Parameters


class Offload(Enum):
    """A load balancing action, named by the index that it balances."""

    INPUT = "input"
    MATCH = "match"
    OUTPUT = "output"


class Indices(msgspec.Struct, frozen=True):
    """``cpu`` and ``memory`` only tell whether a broker is overloaded; they are not exchanged."""

    input: float = 0.0
    output: float = 0.0
    matching_delay: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0

    @property
    def ratios(self) -> dict[str, float]:
        """The four that can be overloaded, input first."""
        return {"input": self.input, "output": self.output, "cpu": self.cpu, "memory": self.memory}

    def differences(self, other: Indices, parameters: Parameters) -> dict[Offload, float]:
        """By how much these are above the other's; delays by equation 3.5."""
        return {
            Offload.INPUT: self.input - other.input,
            Offload.OUTPUT: self.output - other.output,
            Offload.MATCH: (self.matching_delay - other.matching_delay) / parameters.delay_normalization,
        }

    def smoothed(self, previous: Indices | None, alpha: float) -> Indices:
        """Equation 3.4."""
        if previous is None:
            return self
        names = self.__struct_fields__
        return Indices(*(alpha * getattr(self, n) + (1 - alpha) * getattr(previous, n) for n in names))


def mean(indices: list[Indices]) -> Indices:
    """Of a cluster: the three indices of its edges that are exchanged."""
    if not indices:
        return Indices()
    count = len(indices)
    return Indices(
        sum(each.input for each in indices) / count,
        sum(each.output for each in indices) / count,
        sum(each.matching_delay for each in indices) / count,
    )
