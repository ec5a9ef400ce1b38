"""Two brokers and their subscriptions, for tests of the offload algorithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tocsin.balancing.strategies.cheung2006.estimation.press import Profile, union
from tocsin.balancing.strategies.cheung2006.estimation.resources import Resources
from tocsin.balancing.strategies.cheung2006.offload.covering import Covering, set_of
from tocsin.balancing.strategies.cheung2006.offload.pair import Pair
from tocsin.balancing.strategies.cheung2006.parameters import Parameters


def broker(
    subscriptions: int, rate: float, output: float, *, slope: float = 0.001, total: float = 1_000.0, cpu: float = 0.0
) -> Resources:
    """``output`` as a ratio of ``total``."""
    return Resources(
        cpu_ratio=cpu or min(1.0, rate * slope * subscriptions),
        input_bandwidth=rate * 10,
        input_queue_memory=0.0,
        input_rate=rate,
        matching_slope=slope,
        total_memory=1e9,
        total_output=total,
        subscriptions=subscriptions,
        output_used=output * total,
        output_queue_memory=0.0,
        engine_slope=1.0,
    )


def pair(
    ours: Resources,
    theirs: Resources,
    vectors: Mapping[int, int],
    subscribers: Mapping[int, int],
    *,
    accepting: Sequence[int] = (),
    above: Mapping[int, Sequence[int]] | None = None,
    samples: int = 10,
    size: float = 10.0,
    parameters: Parameters | None = None,
) -> Pair:
    """``above``: which subscriptions cover each; ``accepting``: the acceptor's CSS."""
    numbers = {*vectors, *subscribers, *accepting}
    covering = Covering({number: set_of((above or {}).get(number, ())) for number in numbers})
    profile = Profile(samples, ours.input_rate, size, dict(vectors), union(vectors.get(n, 0) for n in accepting))
    return Pair(ours, theirs, profile, covering, subscribers, set_of(accepting), parameters or Parameters())
