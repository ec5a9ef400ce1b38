"""T45: the acceptor never reaches the lower overload threshold."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from offload_pairs import broker, pair

from tocsin.balancing.strategies.cheung2006.offload.bound import fits, most


def found(theirs, vector=0b1111111111, subscribers=500):
    return pair(broker(500, 10.0, 0.9), theirs, {0: vector}, {0: subscribers})


def test_input_bounds_the_number():
    both = found(broker(50, 10.0, 0.0, total=1e9))
    # 20 publications a second and 0.001 s each: 45 subscriptions are too many, and 50 are there already.
    assert most(both, 0) == 0
    both = found(broker(10, 10.0, 0.0, slope=0.0011, total=1e9))
    assert most(both, 0) == 30 and (10 + 30) * 0.0011 * 20 < 0.9 < (10 + 31) * 0.0011 * 20


def test_output_bounds_the_number():
    # 100 bytes a second for each, of 1000 a second, of which 0.5 are used.
    assert most(found(broker(1, 0.0, 0.5, slope=1e-9)), 0) == 3


def test_memory_bounds_the_number():
    theirs = replace(broker(1, 0.0, 0.0, slope=1e-9, total=1e9), total_memory=100.0)
    assert most(found(theirs), 0) == 88


def test_processor_bounds_the_number():
    theirs = replace(broker(100, 10.0, 0.0, slope=1e-5, total=1e9), cpu_ratio=0.8)
    both = found(theirs, vector=0)
    assert most(both, 0) == 12 and not fits(both, 13, 0.0, 0.0)


def test_an_empty_broker_takes_all():
    assert most(found(broker(0, 0.0, 0.0, slope=1e-9, total=1e9)), 0) == 500


@pytest.mark.parametrize("subscribers", [1, 2, 3, 17])
def test_the_bound_is_the_largest_that_fits(subscribers):
    both = found(broker(10, 10.0, 0.0, total=2_000.0), subscribers=subscribers)
    number, output = most(both, 0), both.output(0)
    assert fits(both, number, both.extra(0), output)
    assert number == subscribers or not fits(both, number + 1, both.extra(0), output)
