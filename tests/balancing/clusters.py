"""Clusters to balance: generated ones for the contract, and a plain one."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tocsin.balancing.model.load import Load, Status
from tocsin.balancing.model.rows import Rows


@st.composite
def clusters(draw: st.DrawFn, plain: bool = False, largest: int = 40) -> Load:
    """Up to 5 brokers and ``largest`` subscribers. ``plain``: equal open brokers, integer rates, no empty ones."""
    m = draw(st.integers(2 if plain else 1, 5))
    q = draw(st.integers(1, 12))
    count = draw(st.integers(0, largest))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    least = 1 if plain else 0
    rows = [rng.choice(q, rng.integers(least, min(q, 6) + 1), replace=False).tolist() for _ in range(count)]
    lam = rng.integers(1, 1000, q).astype(float) if plain else rng.exponential(100.0, q) * (rng.random(q) < 0.9)
    skew = draw(st.sampled_from([1.0, 0.3]))
    at = rng.choice(m, count, p=np.power(skew, np.arange(m)) / np.power(skew, np.arange(m)).sum())
    load = Load.of(Rows(rows), lam, at, np.ones(m))
    if not plain:
        for j in range(m):
            capacity = draw(st.sampled_from([1.0, 1.0, 0.5, 3.0]))
            room = draw(st.sampled_from([1000, 1000, int(load.count[j]), int(load.count[j]) + 2]))
            status = draw(st.sampled_from([Status.OPEN] * 4 + [Status.FULL, Status.DRAINING, Status.GONE]))
            load.broker(j, capacity, room)
            load.mark(j, status)
    return load


def skewed(subscribers: int = 400, subscriptions: int = 50, brokers: int = 5, seed: int = 1) -> Load:
    """About half of the subscribers are at broker 0."""
    rng = np.random.default_rng(seed)
    rows = [rng.choice(subscriptions, rng.integers(3, 10), replace=False).tolist() for _ in range(subscribers)]
    at = np.where(rng.random(subscribers) < 0.5, 0, rng.integers(0, brokers, subscribers))
    return Load.of(Rows(rows), rng.normal(100, 20, subscriptions), at, np.ones(brokers))
