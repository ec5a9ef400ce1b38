"""Step 2 of detection: by which index is this broker or cluster above another, beyond the threshold?"""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices, Offload
from tocsin.balancing.strategies.cheung2006.detection.overload import Partner
from tocsin.balancing.strategies.cheung2006.detection.pie import Pie
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.parameters import Parameters


def imbalanced(own: Indices, known: Iterable[Pie], parameters: Parameters, ratio: float, delay: float) -> list[Partner]:
    """The broker-action list in descending order of the difference. The higher-loaded side acts."""
    found = []
    for pie in known:
        if pie.status is Status.UNAVAILABLE:
            continue
        for action, difference in own.differences(pie.indices, parameters).items():
            if difference > (delay if action is Offload.MATCH else ratio):
                found.append((difference, pie.broker, action))
    found.sort(key=lambda each: (-each[0], each[1], each[2].value))
    return [Partner(broker, action) for _, broker, action in found]


def balanced_with(own: Indices, known: Iterable[Pie], parameters: Parameters) -> tuple[str, ...]:
    """The balanced set: brokers that differ by no index beyond the local thresholds."""
    ratio, delay = parameters.local_ratio_threshold, parameters.local_delay_threshold
    found = []
    for pie in known:
        differences = own.differences(pie.indices, parameters)
        limits = {Offload.INPUT: ratio, Offload.OUTPUT: ratio, Offload.MATCH: delay}
        if all(abs(each) <= limits[action] for action, each in differences.items()):
            found.append(pie.broker)
    return tuple(sorted(found))
