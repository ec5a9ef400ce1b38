"""Regrouping: coarse by hosts, fine by refinement; balanced and within limits."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.interests import network
from clusters import clusters
from hypothesis import given, settings
from hypothesis import strategies as st

from seeds import examples, few
from tocsin.balancing.model.load import Status
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.debs2019.gsh import shuffle
from tocsin.balancing.strategies.peal.group_assignment import assigned, chosen, shares
from tocsin.balancing.strategies.peal.groups import Groups, find_groups
from tocsin.balancing.strategies.peal.peal import peal
from tocsin.balancing.strategies.peal.refinement import refine
from tocsin.balancing.strategies.peal.regroup import regrouped

SIZE = {"subscribers": 4_000, "subscriptions": 500, "brokers": 8}


@pytest.mark.parametrize("network_drawn", few([(True, 201), (False, 201), (True, 202), (False, 202)], 1), ids=str)
def test_it_comes_within_2_percent_of_the_bound_with_fewer_migrations_than_a_shuffle(network_drawn):
    unequal, seed = network_drawn
    load = network("clustered", seed=seed, unequal=unequal, noise=0.02)
    us, targets, _ = shuffle(WhatIf(load))
    migrations = list(peal(trigger=0.0).suggest(WhatIf(load)))
    assert load.as_if(migrations).maximum <= 1.02 * load.lower_bound()
    assert len(migrations) < (load.at[us] != targets).sum()


def test_a_regrouped_network_gets_few_migrations():
    load = network("clustered", **SIZE)
    strategy = peal(trigger=0.0)
    for migration in strategy.suggest(WhatIf(load)):
        load.attach(migration.subscriber, migration.target)
    assert len(list(strategy.suggest(WhatIf(load)))) <= 0.02 * SIZE["subscribers"]


@settings(deadline=None, max_examples=examples(60))
@given(
    st.integers(1, 6).flatmap(
        lambda m: st.tuples(
            st.lists(st.lists(st.floats(0, 100), min_size=m, max_size=m), min_size=1, max_size=8),
            st.lists(st.floats(0.1, 10), min_size=m, max_size=m),
        )
    ),
    st.integers(1, 4),
)
def test_every_group_gets_its_hosts_and_shares_sum_up_to_the_groups(drawn, hosts):
    load, capacity = np.array(drawn[0]), np.array(drawn[1])
    room = capacity / capacity.sum() * load.sum()
    is_host = chosen(load, room, hosts)
    assert (is_host.sum(axis=1) >= min(hosts, len(capacity))).all()
    found = shares(load, room, is_host)
    assert np.allclose(found.sum(axis=1), load.sum(axis=1))
    assert (found[~is_host] == 0).all() and (found >= 0).all()


@settings(deadline=None, max_examples=examples(60))
@given(load=clusters(), hosts=st.integers(0, 3), draw=st.randoms(use_true_random=False))
def test_with_any_groups_no_subscriber_is_lost_or_sent_to_a_closed_broker(load, hosts, draw):
    before, view = WhatIf(load), WhatIf(load)
    of_subscription = np.array([draw.randrange(3) for _ in load.lam], dtype=np.int64)
    of_subscriber = np.array([draw.randrange(3) if at >= 0 else -1 for at in load.at], dtype=np.int64)
    migrations = regrouped(view, Groups(of_subscription, of_subscriber, 3, 1.0), hosts, 0.0)
    assert {migration.subscriber: migration.target for migration in migrations} == {
        u: int(at) for u, at in enumerate(view.at) if at != before.at[u]
    }
    assert all(load.status[migration.target] == Status.OPEN for migration in migrations)
    assert ((view.at >= 0) == (before.at >= 0)).all()
    assert np.allclose(view.F, view.after([]).F) and view.count.sum() == before.count.sum()


def test_hosts_keep_their_subscribers():
    load = network("clustered", **SIZE, noise=0.0)
    view = WhatIf(load)
    groups = find_groups(view, 0.2, 0.4)
    us, targets = assigned(view, groups, 2)
    stay = (view.at[us] == targets).mean()
    assert sorted(us.tolist()) == list(range(SIZE["subscribers"])) and stay > 1.5 / SIZE["brokers"]
    view.migrate_all(us, targets)
    assert (view.relative < 1.15 * view.mean).all()


def test_refinement_keeps_the_balance_and_lowers_the_incoming_load():
    load = network("clustered", **SIZE, noise=0.05)
    view = WhatIf(load)
    groups = find_groups(view, 0.2, 0.4)
    view.migrate_all(*assigned(view, groups, 2))
    before = view.I.sum()
    refine(view, groups, home=load.at.astype(np.int64), price=0.0)
    assert view.I.sum() < 0.9 * before
    assert view.loads.maximum < 1.05 * view.mean


def test_regrouping_respects_the_limit_of_a_broker():
    load = network("clustered", **SIZE, balanced=True)
    load.max_subscribers[0] = load.count[0] + 3
    migrations = list(peal("regroup", trigger=0.0).suggest(WhatIf(load)))
    assert migrations
    for migration in migrations:
        load.attach(migration.subscriber, migration.target)
        assert load.count[0] <= load.max_subscribers[0]
