"""The coordinator's strategies make the same plans as those stored (golden_plans.py says how to store others)."""

from __future__ import annotations

import json

import pytest
from golden_plans import QUICK, SEEDS, STORED, STRATEGIES, recorded

GOLDEN = json.loads(STORED.read_text())


def check(strategy, seeds):
    for seed, (found, stored) in enumerate(zip(recorded(strategy, seeds), GOLDEN[strategy], strict=False)):
        for place, (new, old) in enumerate(zip(found, stored, strict=True)):
            assert new == old, f"{strategy}, seed {seed}, plan {place}"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_networks_get_the_same_migrations_and_refusals_in_the_same_order(strategy):
    check(strategy, QUICK.get(strategy, SEEDS))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", QUICK)
def test_all_networks_get_the_same_migrations_where_plans_take_long(strategy):
    check(strategy, SEEDS)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_stored_plans_exercise_every_strategy(strategy):
    migrations = sum(plan[1] for seed in GOLDEN[strategy] for plan in seed)
    refusals = sum(plan[2] for seed in GOLDEN[strategy] for plan in seed)
    assert len(GOLDEN[strategy]) == SEEDS and migrations > 50 and refusals > 5
