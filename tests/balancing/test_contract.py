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
    moves = suggested(name, load)
    moved = [move.subscriber for move in moves]
    assert len(moved) == len(set(moved)), "nobody is moved twice"
    before, after = WhatIf(load), WhatIf(load)
    for move in moves:
        assert after.at[move.subscriber] == move.source != move.target, "everybody leaves from where it is"
        assert load.status[move.target] == Status.OPEN, "nobody is sent to a full, draining or dead broker"
        after.move(move.subscriber, move.target)
    assert ((after.at >= 0) == (before.at >= 0)).all(), "nobody is lost"
    assert after.count.sum() == before.count.sum(), "nobody is in two places"
    assert (after.count <= load.most)[after.count > before.count].all(), "no broker gets more than it takes"
    assert strategy.objective(after) <= strategy.objective(before) * ROUNDING, "its own objective is not worse"
    if not any(move.must for move in moves):
        assert after.loads.maximum <= before.loads.maximum * ROUNDING, "the maximum is not raised"
    assert moves == suggested(name, load), "the same input gives the same plan"


@ALL
@settings(deadline=None, max_examples=40)
@given(load=clusters(), most=st.integers(1, 20))
def test_what_the_balancer_lets_through_is_safe_after_every_single_move(name, load, most):
    balancer = Balancer(load, registry.make(name, **EAGER.get(name, {})), Limits(moves=most, per_broker=7))
    ceiling = load.loads.maximum
    live = load.live
    plan = balancer.plan(0.0)
    assert len(plan.moves) <= most
    for move in plan.moves:
        load.attach(move.subscriber, move.target)
        assert load.count[move.target] <= load.most[move.target]
        highest = load.loads.relative[live].max()
        if move.must:
            ceiling = max(ceiling, highest)
        assert highest <= ceiling * ROUNDING, "only a move that must be raises the maximum"
    for j in range(load.m):
        assert sum(move.source == j for move in plan.moves) <= 7 and sum(move.target == j for move in plan.moves) <= 7


@ALL
@settings(deadline=None, max_examples=15)
@given(load=clusters())
def test_it_settles(name, load):
    """Plans that are carried out are followed by smaller ones and at last by none: no migration storm."""
    strategy = registry.make(name, **EAGER.get(name, {}))
    for _ in range(60):
        moves = list(strategy.suggest(WhatIf(load)))
        if not moves:
            return
        for move in moves:
            load.attach(move.subscriber, move.target)
    raise AssertionError(f"still {len(moves)} moves after 60 plans")
