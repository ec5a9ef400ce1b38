"""The workload of the DEBS paper's simulation (section 6.2.1), at its size and at others.

What the paper gives: 10 brokers, 10,000 subscribers, 10 channels with periods of 5, 10, 20, 30 and 60 seconds and 100
subscriptions each, rates by a normal distribution, 10 to 30 subscriptions a subscriber made in the first 8 of 30
minutes; every minute a quarter of all subscriptions is scheduled to raise its rate within 3 minutes and to lower it 4
to 6 minutes later; channels differ in the average size of their notifications; one broker with more than 2,000
subscribers where others have fewer than 500.

What it leaves open, and what we take: a rate is 25 kB/s on average with a deviation of 6 kB/s, so that the mean load
of a broker passes β = 300 MB/s while people subscribe; the averages of the channels go from half of that to one and a
half; each raise adds the original rate once, so that one that is chosen again while it is raised has three times its
rate; the volume of a single execution deviates by a tenth; channels begin at different moments of their period.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tocsin.balancing.model.arrays import Floats, Longs
from tocsin.simulation.flow.population import around, distinct, falling, grid, within
from tocsin.simulation.flow.workload import Execution, Workload

PERIODS = (5.0, 10.0, 20.0, 30.0, 60.0)
MINUTE = 60.0


@dataclass(frozen=True)
class Size:
    """``skew``: the weight of the last spot that people crowd around as a share of the first's. ``spots``: how many,
    0 for one a broker. ``rate``: bytes a second, mean and deviation. ``averages``: of the first and the last channel,
    relative to it. ``raised``: a raise adds the rate this many times less one. ``zipf``: 0 if all are wanted alike.
    """

    brokers: int = 10
    subscribers: int = 10_000
    channels: int = 10
    backs: int = 1_000
    seconds: float = 1_800.0
    fewest: int = 10
    most: int = 30
    subscribed_by: float = 480.0
    skew: float = 0.11
    rate: tuple[float, float] = (25_000.0, 6_000.0)
    averages: tuple[float, float] = (0.5, 1.5)
    raised: float = 2.0
    again: bool = True  # a rate that is raised may be raised once more
    periods: tuple[float, ...] = PERIODS
    spots: int = 0
    zipf: float = 0.0
    capacity: float = 1.0  # of each broker


def debs_simulation(seed: int = 1, size: Size | None = None) -> Workload:
    size = size or Size()
    rng = np.random.default_rng([2019, seed])
    sites = grid(size.brokers)
    spots = grid(size.spots or size.brokers)
    people = around(rng, spots[rng.permutation(len(spots))], falling(len(spots), size.skew), size.subscribers)
    login = rng.uniform(0.0, min(8.0, size.subscribed_by / 2), size.subscribers)
    count = rng.integers(size.fewest, size.most + 1, size.subscribers)
    popularity = np.arange(1.0, size.backs + 1) ** -size.zipf if size.zipf else None
    wanted = distinct(rng, count, size.backs, popularity)
    owner = np.repeat(np.arange(size.subscribers), count)
    made = within(rng, owner, len(owner), min(10.0, size.subscribed_by / 2), size.subscribed_by)
    return Workload(
        size.seconds,
        np.full(size.brokers, size.capacity),
        sites,
        people,
        login,
        count,
        wanted,
        made,
        executions(rng, size),
        size.backs,
        "D-sim",
    )


def executions(rng: Generator, size: Size) -> list[Execution]:
    base = np.maximum(rng.normal(*size.rate, size.backs), size.rate[0] / 10)
    begin, end, which = raises(rng, size)
    averages = np.linspace(*size.averages, size.channels)
    found = []
    for number, ks in enumerate(np.array_split(np.arange(size.backs), size.channels)):
        period = size.periods[number % len(size.periods)]
        times = np.arange(rng.uniform(0.0, period), size.seconds, period)
        mine = (ks[0] <= which) & (which <= ks[-1])
        changes = np.zeros((len(times) + 1, len(ks)), dtype=np.int64)
        np.add.at(changes, (np.searchsorted(times, begin[mine]), which[mine] - ks[0]), 1)
        np.add.at(changes, (np.searchsorted(times, end[mine]), which[mine] - ks[0]), -1)
        raised = np.cumsum(changes, axis=0)[:-1]
        rate = averages[number] * base[ks] * (1.0 + (size.raised - 1.0) * raised)
        volume = np.rint(rate * period * np.maximum(rng.normal(1.0, 0.1, raised.shape), 0.1)).astype(np.int64)
        found += [Execution(time, ks, volume[i]) for i, time in enumerate(times.tolist())]
    return sorted(found, key=lambda execution: execution.time)


def raises(rng: Generator, size: Size) -> tuple[Floats, Floats, Longs]:
    """From when to when which subscription has a raised rate."""
    until = np.zeros(size.backs)  # until when each is raised
    begins, ends, whiches = [], [], []
    for minute in np.arange(0.0, size.seconds, MINUTE).tolist():
        chosen = rng.choice(size.backs, size.backs // 4, replace=False)
        chosen = chosen if size.again else chosen[until[chosen] <= minute]
        begin = minute + rng.uniform(0.0, 3 * MINUTE, len(chosen))
        end = begin + rng.uniform(4 * MINUTE, 6 * MINUTE, len(chosen))
        until[chosen] = end
        begins.append(begin)
        ends.append(end)
        whiches.append(chosen)
    return np.concatenate(begins), np.concatenate(ends), np.concatenate(whiches)
