"""Brokers join and are drained; the stages of the paper follow each other."""

from __future__ import annotations

from itertools import pairwise

import pytest
from clusters import skewed

from tocsin.balancing import CentralHost, Limits, Status, WhatIf
from tocsin.balancing.strategies import registry

ENOUGH = Limits(in_flight=10_000, per_broker=10_000)


def carried_out(load, name: str, limits: Limits = ENOUGH, **settings):
    plan = CentralHost(load, registry.make(name, **settings), limits).plan(0.0)
    for migration in plan.migrations:
        load.attach(migration.subscriber, migration.target)
    return plan


def test_a_drained_broker_is_empty_and_the_others_are_even():
    load = skewed()
    carried_out(load, "gsh", gamma=0.0)
    load.mark(2, Status.DRAINING)
    plan = carried_out(load, "drain")
    assert load.count[2] == 0 and load.loads.F[2] == 0.0 and len(plan.migrations) > 50
    assert load.loads.cov < 0.02


def test_a_drain_spreads_over_several_plans():
    load = skewed()
    load.mark(0, Status.DRAINING)
    left = [int(load.count[0])]
    while load.count[0]:
        carried_out(load, "drain", Limits(in_flight=40))
        left.append(int(load.count[0]))
    assert all(before - after <= 40 for before, after in pairwise(left))


def test_a_drain_without_an_accepting_broker_suggests_nothing():
    load = skewed(brokers=2)
    load.mark(0, Status.DRAINING)
    load.mark(1, Status.FULL)
    assert carried_out(load, "drain").migrations == []


@pytest.mark.parametrize("capacity", [1.0, 3.0])
def test_a_joining_broker_is_the_only_target_and_takes_its_share(capacity):
    load = skewed()
    carried_out(load, "gsh", gamma=0.0)
    load.broker(5, capacity)
    plan = carried_out(load, "join")
    assert {migration.target for migration in plan.migrations} == {5}
    even = load.loads.F.sum() / load.capacity.sum()
    assert load.loads.relative[5] == pytest.approx(even, rel=0.15)
    assert list(registry.make("join").suggest(WhatIf(load))) == []


def test_the_imbalance_determines_the_stage():
    load = skewed()
    assert load.loads.cov > 0.5
    reasons = {migration.reason.split(":")[0] for migration in carried_out(load, "multistage", gamma=0.5).migrations}
    assert reasons == {"GSH"} and load.loads.cov < 0.15
    load = skewed()
    reasons = {migration.reason.split(":")[0] for migration in carried_out(load, "multistage", gamma=5.0).migrations}
    assert reasons == {"LDM"} and load.loads.cov <= 0.15
    assert carried_out(load, "multistage").migrations == []
    assert carried_out(skewed(), "multistage", beta=1e12, theta=1e12).migrations == []
