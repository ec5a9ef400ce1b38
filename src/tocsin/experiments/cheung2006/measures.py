"""What figures read off a run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.model.arrays import Floats
from tocsin.experiments.cheung2006 import criteria
from tocsin.simulation.edges.records import EstimateRecord, Records, SessionRecord
from tocsin.simulation.edges.world import INTERVAL

Flags: TypeAlias = NDArray[np.bool_]
#: Values of a series in a minute.
MINUTE = round(60.0 / INTERVAL)


def smooth(series: Floats) -> Floats:
    """The mean of the last minute, along the last axis."""
    sums = np.cumsum(np.insert(series, 0, 0.0, axis=-1), axis=-1)
    ends = np.arange(1, series.shape[-1] + 1)
    starts = np.maximum(0, ends - MINUTE)
    return np.asarray((sums[..., ends] - sums[..., starts]) / (ends - starts))


def first_above(records: Records, edge: str, limit: float) -> float | None:
    """When the input ratio of an edge first exceeds a limit."""
    above = np.flatnonzero(records.of("input", edge) > limit)
    return float(records.time[above[0]]) if len(above) else None


def holds_from(time: Floats, holds: Flags, begin: float, end: float) -> float | None:
    """The time from which on a condition holds until ``end``, at ``begin`` at the earliest; None if it never does."""
    within = (time >= begin) & (time <= end)
    failed = time[within & ~holds]
    found = begin if not len(failed) else float(failed[-1]) + INTERVAL
    return found if found < end else None


def balanced_from(records: Records, begin: float, end: float) -> float | None:
    """From when on the input ratios of all edges are within the threshold of each other."""
    smoothed = smooth(records.table("input"))
    spread = smoothed.max(axis=0) - smoothed.min(axis=0)
    return holds_from(records.time, spread <= criteria.WITHIN, begin, end)


def empty_from(records: Records, edge: str, begin: float, end: float) -> float | None:
    """From when on the input queue of an edge is empty."""
    waits = smooth(records.of("input_wait", edge))
    return holds_from(records.time, waits < criteria.EMPTY, begin, end)


def between(records: Records, begin: float, end: float) -> Flags:
    return np.asarray((records.time >= begin) & (records.time <= end))


def deviation(records: Records, name: str, begin: float, end: float) -> float:
    """The mean over time of the standard deviation among edges."""
    table = smooth(records.table(name))[:, between(records, begin, end)]
    return float(table.std(axis=0).mean())


def sessions(records: Records, begin: float, end: float, *, moved: bool = True) -> list[SessionRecord]:
    """``moved``: only those in which a subscriber migrated."""
    return [each for each in records.sessions if begin <= each.at <= end and (each.moved or not moved)]


def mean_overhead(records: Records, begin: float, end: float) -> float:
    return float(np.array(records.overhead)[between(records, begin, end)].mean())


def peak_overhead(records: Records, begin: float, end: float) -> float:
    """Of a mean over a minute."""
    return float(smooth(np.array(records.overhead))[between(records, begin, end)].max())


def errors(estimates: Sequence[EstimateRecord], name: str, *, offloading: bool) -> Floats:
    """Per cent of the value that came, without those of B1 while subscribers join; of a delay, in seconds."""
    found = []
    for each in estimates:
        if each.offloading is offloading and not each.while_joining:
            expected, actual = getattr(each.expected, name), getattr(each.found, name)
            found.append(expected - actual if name == "matching_delay" else 100.0 * (expected - actual))
    return np.array(found)


def in_order(values: Sequence[float]) -> bool:
    return all(one < other for one, other in pairwise(values))
