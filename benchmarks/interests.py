"""Broker networks to balance: subscriptions, placement and capacities, all from one seed."""

from __future__ import annotations

import numpy as np

from tocsin.balancing.model.load import Load
from tocsin.balancing.model.rows import Rows

KINDS = ("uniform", "zipf", "clustered", "geographic")
#: BE subscriptions that belong together, in the clustered kind.
COMMUNITY = 50


def network(
    kind: str,
    subscribers: int = 10_000,
    subscriptions: int = 1_000,
    brokers: int = 10,
    *,
    seed: int = 1,
    unequal: bool = False,
    noise: float = 0.02,
    balanced: bool = False,
) -> Load:
    """The DEBS paper's simulation: 10 to 30 subscriptions each, normal rates, skewed placement (or ``balanced``).

    ``noise``: the share of a subscriber's interests that lie outside its community (clustered).
    """
    rng = np.random.default_rng(seed)
    lam = np.maximum(1.0, rng.normal(100, 25, subscriptions))
    sizes = rng.integers(10, 31, subscribers)
    owner = np.repeat(np.arange(subscribers), sizes)
    weights = np.power(0.8 ** (10 / brokers), np.arange(brokers)) if not balanced else np.ones(brokers)
    at = rng.choice(brokers, subscribers, p=weights / weights.sum())
    if kind == "uniform":
        interests = rng.integers(0, subscriptions, len(owner))
    elif kind == "zipf":
        popularity = 1 / np.arange(1, subscriptions + 1)
        interests = rng.choice(subscriptions, len(owner), p=popularity / popularity.sum())
    elif kind == "clustered":
        community = min(COMMUNITY, subscriptions)
        communities = subscriptions // community
        sizes_of = rng.dirichlet(np.full(communities, 4.0))
        mine = rng.choice(communities, subscribers, p=sizes_of)
        interests = mine[owner] * community + rng.integers(0, community, len(owner))
        interests = np.where(rng.random(len(owner)) < noise, rng.integers(0, subscriptions, len(owner)), interests)
    elif kind == "geographic":
        interests, at = geographic(rng, subscribers, subscriptions, brokers, owner, balanced, at)
    else:
        raise ValueError(kind)
    keys = np.unique(owner * np.int64(subscriptions) + interests)
    size = np.bincount(keys // subscriptions, minlength=subscribers)
    capacity = rng.choice([1.0, 2.0, 4.0], brokers) if unequal else np.ones(brokers)
    return Load.of(Rows.packed(size, keys % subscriptions), lam, at, capacity)


def geographic(rng, subscribers, subscriptions, brokers, owner, balanced, at):  # type: ignore[no-untyped-def]
    """Districts on a square; subscribers live around a few centres, and have near interests and the nearest broker."""
    side = int(np.ceil(np.sqrt(subscriptions)))
    centres = rng.random((6, 2))
    home = np.clip(centres[rng.integers(0, 6, subscribers)] + rng.normal(0, 0.12, (subscribers, 2)), 0, 0.999)
    near = np.clip(home[owner] + rng.normal(0, 0.06, (len(owner), 2)), 0, 0.999)
    cell = (near * side).astype(np.int64)
    interests = (cell[:, 0] * side + cell[:, 1]) % subscriptions
    if balanced:
        return interests, at
    places = rng.random((brokers, 2))
    out = np.empty(subscribers, dtype=np.int64)
    for begin in range(0, subscribers, 100_000):
        some = home[begin : begin + 100_000]
        out[begin : begin + 100_000] = ((some[:, None] - places) ** 2).sum(axis=2).argmin(axis=1)
    return interests, out
