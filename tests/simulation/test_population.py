"""A population without faults, counted message by message, against the formulas of the paper."""

from __future__ import annotations

import math
from random import Random

import pytest

from tocsin.broker.core.model.rate import WINDOW
from tocsin.broker.core.model.rate import seconds as observed
from tocsin.errors import UserError
from tocsin.simulation.population import REST, count


def test_every_broker_fetches_once_and_delivers_to_each_subscriber():
    rng = Random(5)
    brokers, seconds = 3, 20.0
    rates, sizes = [0.5, 1.0, 0.25, 2.0], [200, 400, 1_000, 150]
    interests = [rng.sample(range(4), rng.randint(1, 3)) for _ in range(12)]
    at = [rng.randrange(brokers) for _ in interests]
    found = count(at, interests, rates, sizes, brokers=brokers, seconds=seconds)
    times = [int(seconds * rate) for rate in rates]
    n = [
        [sum(here == j and k in row for here, row in zip(at, interests, strict=True)) for k in range(4)]
        for j in range(3)
    ]
    assert found.delivered == [sum(n[j][k] * times[k] for k in range(4)) for j in range(brokers)]
    assert found.fetched == [sum((n[j][k] > 0) * times[k] for k in range(4)) for j in range(brokers)]
    assert found.received == [sum(times[k] for k in row) for row in interests]

    # λ is an average with exponential decay; a result's frame adds some bytes.
    def lam(k: int) -> float:
        ages = [seconds + REST - number / rates[k] for number in range(times[k])]
        return sum((sizes[k] + 85) * math.exp(-age / WINDOW) for age in ages) / observed(seconds + REST)

    for j in range(brokers):
        assert found.load_in[j] == pytest.approx(sum((n[j][k] > 0) * lam(k) for k in range(4)), rel=0.1)
        assert found.load_out[j] == pytest.approx(sum(n[j][k] * lam(k) for k in range(4)), rel=0.1)


def test_lists_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="same length"):
        count([0], [], [1.0], [10], brokers=1, seconds=1.0)
