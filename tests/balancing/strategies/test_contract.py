"""What every strategy has to keep to, whatever the cluster; a strategy that is registered is tested here."""

from __future__ import annotations

import pytest
from clusters import clusters
from hypothesis import given, settings
from hypothesis import strategies as st

from eager import EAGER
from tocsin.balancing.balancer import Balancer
from tocsin.balancing.decisions import Limits
from tocsin.balancing.model.load import Load, Status
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies import registry

ALL = pytest.mark.parametrize("name", sorted(registry.BUILT_IN))
ROUNDING = 1 + 1e-9


def suggested(name: str, load: Load) -> list:
    return list(registry.make(name, **EAGER.get(name, {})).suggest(WhatIf(load)))


@ALL
@settings(deadline=None, max_examples=40)
@given(load=clusters())
def test_the_contract(name, load):
    strategy = registry.make(name, **EAGER.get(name, {}))
    migrations = suggested(name, load)
    moved = [migration.subscriber for migration in migrations]
    assert len(moved) == len(set(moved)), "nobody is moved twice"
    before, after = WhatIf(load), WhatIf(load)
    for migration in migrations:
        assert after.at[migration.subscriber] == migration.source != migration.target, (
            "everybody leaves from where it is"
        )
        assert load.status[migration.target] == Status.OPEN, "nobody is sent to a full, draining or dead broker"
        after.migrate(migration.subscriber, migration.target)
    assert ((after.at >= 0) == (before.at >= 0)).all(), "nobody is lost"
    assert after.count.sum() == before.count.sum(), "nobody is in two places"
    assert (after.count <= load.max_subscribers)[after.count > before.count].all(), "no broker gets more than it takes"
    assert strategy.objective(after) <= strategy.objective(before) * ROUNDING, "its own objective is not worse"
    if not any(migration.mandatory for migration in migrations):
        assert after.loads.maximum <= before.loads.maximum * ROUNDING, "the maximum is not raised"
    assert migrations == suggested(name, load), "the same input gives the same plan"


@ALL
@settings(deadline=None, max_examples=40)
@given(load=clusters(), most=st.integers(1, 20))
def test_no_accepted_migration_exceeds_a_limit_or_raises_the_maximum(name, load, most):
    balancer = Balancer(load, registry.make(name, **EAGER.get(name, {})), Limits(in_flight=most, per_broker=7))
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
@settings(deadline=None, max_examples=15)
@given(load=clusters())
def test_it_settles(name, load):
    """Plans that are carried out are followed by smaller ones and at last by none: no migration storm."""
    strategy = registry.make(name, **EAGER.get(name, {}))
    for _ in range(60):
        migrations = list(strategy.suggest(WhatIf(load)))
        if not migrations:
            return
        for migration in migrations:
            load.attach(migration.subscriber, migration.target)
    raise AssertionError(f"still {len(migrations)} migrations after 60 plans")
