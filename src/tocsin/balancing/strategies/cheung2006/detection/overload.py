"""Step 1 of detection: is a resource of this broker overloaded, and who could relieve it? (figure 3.4)"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices, Offload
from tocsin.balancing.strategies.cheung2006.detection.pie import Pie
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

ACTIONS = {"input": Offload.INPUT, "output": Offload.OUTPUT, "cpu": Offload.MATCH, "memory": Offload.MATCH}


class Partner(msgspec.Struct, frozen=True):
    """An entry of the broker-action list."""

    broker: str
    action: Offload
    overloaded: bool = False


def unavailable(indices: Indices, parameters: Parameters) -> bool:
    """From the lower threshold on a broker accepts nothing."""
    return any(each >= parameters.lower_overload for each in indices.ratios.values())


def overloaded(indices: Indices, parameters: Parameters) -> Offload | None:
    """Beyond the higher threshold it acts at once: on input if that is overloaded, else on the highest."""
    beyond = {name: each for name, each in indices.ratios.items() if each > parameters.higher_overload}
    if not beyond:
        return None
    return ACTIONS["input" if "input" in beyond else max(beyond, key=lambda name: beyond[name])]


def relievers(action: Offload, known: Iterable[Pie]) -> list[Partner]:
    """Brokers that are not overloaded, the least loaded first."""

    def load(pie: Pie) -> float:
        indices = pie.indices
        return {
            Offload.INPUT: indices.input,
            Offload.OUTPUT: indices.output,
            Offload.MATCH: indices.matching_delay,
        }[action]

    available = [pie for pie in known if pie.status is not Status.UNAVAILABLE]
    return [Partner(pie.broker, action, True) for pie in sorted(available, key=lambda pie: (load(pie), pie.broker))]
