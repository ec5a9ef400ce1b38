"""Peal: a maximum no higher than a shuffle's with about the fewest migrations; groups where there are groups."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.interests import network

from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.debs2019.gsh import shuffle
from tocsin.balancing.strategies.peal.groups import find_groups
from tocsin.balancing.strategies.peal.peal import peal
from tocsin.errors import UserError

SIZE = {"subscribers": 3_000, "subscriptions": 500, "brokers": 6}


def fewest(view: WhatIf, target: float) -> int:
    """The smallest number of migrations that could reach the target: each broker above it sheds its heaviest."""
    total = 0
    trial = view.fork()
    for b in np.flatnonzero(view.live & (view.relative > target)).tolist():
        here = trial.subscribers(b)
        for u in here[np.argsort(-trial.u[here], kind="stable")].tolist():
            if trial.relative[b] <= target:
                break
            trial.migrate(u, -1)
            total += 1
    return total


@pytest.mark.parametrize("kind", ["uniform", "zipf", "clustered", "geographic"])
@pytest.mark.parametrize("unequal", [False, True])
def test_repair_is_as_low_as_a_shuffle_with_about_the_fewest_migrations(kind, unequal):
    load = network(kind, **SIZE, unequal=unequal)
    reached = shuffle(WhatIf(load))[2]
    migrations = list(peal("repair", trigger=0.0).suggest(WhatIf(load)))
    assert load.as_if(migrations).maximum <= reached * (1 + 1e-9)
    assert len(migrations) <= 1.25 * fewest(WhatIf(load), reached)


@pytest.mark.parametrize("balanced", [False, True])
def test_regrouping_approaches_the_bound_with_fewer_migrations_than_a_shuffle(balanced):
    load = network("clustered", **SIZE, noise=0.0, balanced=balanced)
    us, targets, reached = shuffle(WhatIf(load))
    migrations = list(peal().suggest(WhatIf(load)))
    after = load.as_if(migrations)
    assert after.maximum <= 1.02 * load.lower_bound() < reached
    assert len(migrations) < (load.at[us] != targets).sum()


def test_every_prefix_of_a_plan_keeps_the_maximum():
    load = network("clustered", **SIZE)
    view, highest = WhatIf(load), load.loads.maximum
    migrations = list(peal().suggest(WhatIf(load)))
    seen = []
    for migration in migrations:
        view.migrate(migration.subscriber, migration.target)
        seen.append(view.loads.maximum)
    assert max(seen) <= highest
    assert seen[len(seen) // 2] < highest - 0.5 * (highest - seen[-1])


def test_a_balanced_network_without_groups_gets_no_migrations():
    assert list(peal(trigger=0.1).suggest(WhatIf(network("uniform", **SIZE, balanced=True)))) == []


def test_an_imbalance_below_the_trigger_gets_no_migrations():
    load = network("uniform", **SIZE)
    assert list(peal(trigger=10.0).suggest(WhatIf(load))) == []


def test_find_groups_recovers_the_communities():
    load = network("clustered", **SIZE, noise=0.02)
    groups = find_groups(WhatIf(load), 0.5, 0.4)
    truth = np.arange(500) // 50
    for community in range(10):
        assert np.bincount(groups.of_subscription[truth == community]).max() >= 45
    assert groups.cohesion > 0.9
    assert find_groups(WhatIf(network("uniform", **SIZE)), 0.5, 0.4) is None


def test_an_unknown_mode_is_refused():
    with pytest.raises(UserError, match="auto, repair, regroup"):
        peal("fifth")


@pytest.mark.parametrize("name", ["trigger", "price", "least", "goal", "evaluations", "rest"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_an_invalid_parameter_is_refused(name, value):
    with pytest.raises(UserError, match=f"{name} of (peal|balancer regroup)"):
        peal(**{name: value})
