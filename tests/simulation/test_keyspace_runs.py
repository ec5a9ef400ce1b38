"""Key spaces under faults: a seed gives the same run, and every run keeps every invariant."""

from __future__ import annotations

import pytest

from tocsin.simulation.keyspaces.run import attempt, run
from tocsin.simulation.keyspaces.scenario import KINDS
from tocsin.simulation.network.trace import Trace

SEEDS = 60


@pytest.mark.parametrize("kind", KINDS)
def test_every_invariant_holds(kind):
    broken = [each for seed in range(1, SEEDS + 1) if (each := attempt(kind, seed)).violations]
    assert [(each.seed, str(each.violations[0])) for each in broken] == []


@pytest.mark.parametrize(("kind", "seed"), [("chord", 276), ("can", 644), ("can", 738), ("event cloud", 281)])
def test_every_invariant_holds_where_one_did_not(kind, seed):
    assert [str(each) for each in attempt(kind, seed).violations] == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(10))
def test_every_invariant_holds_in_many_runs(kind, part, exploration_seed):
    first = 1_000_000 * (exploration_seed % 1_000_000) + part * 300
    broken = [each for seed in range(first, first + 300) if (each := attempt(kind, seed)).violations]
    assert [(each.seed, str(each.violations[0])) for each in broken] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_run_to_the_byte(kind):
    def traced(seed):
        return run(kind, seed, trace=lambda clock: Trace(clock, True))

    assert traced(3) == traced(3)
    assert traced(3).fingerprint != traced(4).fingerprint
