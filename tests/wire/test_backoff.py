"""Waits double up to a limit, and callers that failed together do not return together."""

from __future__ import annotations

from random import Random

from tocsin.wire.backoff import Backoff, backoff, ceiling


def test_waits_double_up_to_the_longest():
    assert [ceiling(failures, 0.5, 6.0) for failures in (1, 2, 3, 4, 5, 10_000)] == [0.5, 1.0, 2.0, 4.0, 6.0, 6.0]


def test_half_of_a_wait_is_random():
    waits = [backoff(3, 0.5, 6.0, Random(seed)) for seed in range(200)]
    assert 1.0 <= min(waits) < 1.05 and 1.95 < max(waits) <= 2.0


def test_every_place_is_tried_before_the_wait_grows():
    waits, ceilings = Backoff(Random(1), least=1.0, most=4.0), []
    for _ in range(7):
        ceilings.append(waits.ceiling(places=2))
        assert 0.5 <= waits.next(places=2) / ceilings[-1] <= 1.0
    assert ceilings == [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 4.0]
    waits.reset()
    assert waits.ceiling() == 1.0
