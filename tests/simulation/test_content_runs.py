"""Heads and edges under faults: a seed gives the same run, and every run keeps every invariant."""

from __future__ import annotations

import pytest

from tocsin.simulation.content.run import attempt, run
from tocsin.simulation.network.trace import Trace

SEEDS = 12


def broken(first: int, count: int) -> list[tuple[int, str]]:
    outcomes = [attempt(seed) for seed in range(first, first + count)]
    assert sum(each.promised for each in outcomes) > count
    return [(each.seed, str(each.violations[0])) for each in outcomes if each.violations]


def test_every_invariant_holds():
    assert broken(1, SEEDS) == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(10))
def test_every_invariant_holds_in_many_runs(part, exploration_seed):
    assert broken(1_000_000 * (exploration_seed % 1_000_000) + part * 300, 300) == []


def test_the_same_seed_gives_the_same_run_to_the_byte():
    def traced(seed):
        return run(seed, trace=lambda clock: Trace(clock, True))

    assert traced(3) == traced(3)
    assert traced(3).fingerprint != traced(4).fingerprint
