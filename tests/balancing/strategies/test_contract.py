"""The contract of every built-in strategy, on generated clusters."""

from __future__ import annotations

import pytest
from clusters import clusters
from hypothesis import given, settings
from hypothesis import strategies as st

from eager import EAGER
from seeds import examples
from tocsin.balancing.central_host import CentralHost
from tocsin.balancing.decisions import Limits
from tocsin.balancing.model.load import Load, Status
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies import registry

ALL = pytest.mark.parametrize("name", sorted(registry.BUILT_IN))
ROUNDING = 1 + 1e-9


def suggested(name: str, load: Load) -> list:
    return list(registry.make(name, **EAGER.get(name, {})).suggest(WhatIf(load)))


@ALL
@settings(deadline=None, max_examples=examples(40))
@given(load=clusters())
def test_every_strategy_suggests_valid_migrations_and_meets_its_objective(name, load):
    strategy = registry.make(name, **EAGER.get(name, {}))
    migrations = suggested(name, load)
    subscribers = [migration.subscriber for migration in migrations]
    assert len(subscribers) == len(set(subscribers)), "a plan migrates a subscriber once"
    before, after = WhatIf(load), WhatIf(load)
    for migration in migrations:
        assert after.at[migration.subscriber] == migration.source != migration.target, (
            "a migration starts at the subscriber's broker"
        )
        assert load.status[migration.target] == Status.OPEN, "no migration goes to a full, draining or dead broker"
        after.migrate(migration.subscriber, migration.target)
    assert ((after.at >= 0) == (before.at >= 0)).all(), "no subscriber is lost"
    assert after.count.sum() == before.count.sum(), "no subscriber is at two brokers"
    assert (after.count <= load.max_subscribers)[after.count > before.count].all(), "no broker exceeds its limit"
    assert strategy.objective(after) <= strategy.objective(before) * ROUNDING, "its own objective is not worse"
    if not any(migration.mandatory for migration in migrations):
        assert after.loads.maximum <= before.loads.maximum * ROUNDING, "the maximum is not raised"
    assert migrations == suggested(name, load), "the same input gives the same plan"


@ALL
@settings(deadline=None, max_examples=examples(40))
@given(load=clusters(), most=st.integers(1, 20))
def test_no_accepted_migration_exceeds_a_limit_or_raises_the_maximum(name, load, most):
    balancer = CentralHost(load, registry.make(name, **EAGER.get(name, {})), Limits(in_flight=most, per_broker=7))
    ceiling = load.loads.maximum
    live = load.live
    plan = balancer.plan(0.0)
    assert len(plan.migrations) <= most
    for migration in plan.migrations:
        before = load.loads.relative[live].max()
        load.attach(migration.subscriber, migration.target)
        relative = load.loads.relative
        assert load.count[migration.target] <= load.max_subscribers[migration.target]
        if not migration.mandatory:
            assert relative[migration.target] <= ceiling * ROUNDING
            assert relative[live].max() <= max(before, ceiling) * ROUNDING
    for j in range(load.m):
        assert sum(each.source == j for each in plan.migrations) <= 7
        assert sum(each.target == j for each in plan.migrations) <= 7


@ALL
@settings(deadline=None, max_examples=examples(15))
@given(load=clusters())
def test_repeated_plans_come_to_an_end(name, load):
    """Carrying out plan after plan leads to an empty one: no migration storm."""
    strategy = registry.make(name, **EAGER.get(name, {}))
    for _ in range(60):
        migrations = list(strategy.suggest(WhatIf(load)))
        if not migrations:
            return
        for migration in migrations:
            load.attach(migration.subscriber, migration.target)
    raise AssertionError(f"still {len(migrations)} migrations after 60 plans")
