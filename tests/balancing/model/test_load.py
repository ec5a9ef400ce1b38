"""The load model against the formulas, after any sequence of updates."""

from __future__ import annotations

import numpy as np
import pytest
from formulas import Formulas
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from seeds import examples
from tocsin.balancing.model.load import NOWHERE, Load, Status
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf

SUBSCRIBERS = st.integers(0, 11)
BROKERS = st.integers(0, 4)
SUBSCRIPTIONS = st.integers(0, 9)
RATES = st.floats(0, 1e6).filter(lambda rate: rate == 0 or rate > 1e-3)


class Updates(RuleBasedStateMachine):
    """The model and the formulas agree after the same updates."""

    @initialize(capacity=st.floats(0.5, 4))
    def begin(self, capacity: float) -> None:
        self.load, self.formulas = Load(), Formulas()
        self.adds_broker(0, capacity)

    @rule(j=BROKERS, capacity=st.floats(0.5, 4))
    def adds_broker(self, j: int, capacity: float) -> None:
        self.load.broker(j, capacity)
        self.formulas.capacity[j] = capacity
        self.formulas.live.add(j)

    @rule(j=BROKERS, status=st.sampled_from(Status))
    def marks_broker(self, j: int, status: Status) -> None:
        if j in self.formulas.capacity:
            self.load.mark(j, status)
            here = [i for i, at in self.formulas.x.items() if at == j]
            lost = here if status == Status.GONE else []
            assert sorted(self.load.subscribers(j)) == sorted(set(here) - set(lost))
            self.formulas.x.update(dict.fromkeys(lost))
            (self.formulas.live.add if status <= Status.FULL else self.formulas.live.discard)(j)

    @rule(u=SUBSCRIBERS, j=BROKERS, ks=st.lists(SUBSCRIPTIONS, max_size=6))
    def joins(self, u: int, j: int, ks: list[int]) -> None:
        known = j in self.formulas.capacity
        self.load.join(u, j if known else NOWHERE, ks)
        self.formulas.x[u], self.formulas.y[u] = j if known else None, set(ks)

    @rule(u=SUBSCRIBERS)
    def leaves(self, u: int) -> None:
        self.load.leave(u)
        self.formulas.x.pop(u, None)
        self.formulas.y.pop(u, None)

    @rule(u=SUBSCRIBERS, j=BROKERS)
    def migrates(self, u: int, j: int) -> None:
        if u in self.formulas.x and j in self.formulas.capacity:
            self.load.attach(u, j)
            self.formulas.x[u] = j

    @rule(rates=st.dictionaries(SUBSCRIPTIONS, RATES, max_size=5))
    def changes_rates(self, rates: dict[int, float]) -> None:
        self.load.rates(list(rates), list(rates.values()))
        self.formulas.lam.update(rates)

    @rule(hypothetical=st.lists(st.tuples(SUBSCRIBERS, BROKERS), max_size=6))
    def tries(self, hypothetical: list[tuple[int, int]]) -> None:
        """The loads after hypothetical migrations, computed in both ways."""
        was, before, trial = dict(self.formulas.x), self.load.loads, WhatIf(self.load)
        migrations = []
        for u, j in hypothetical:
            if self.formulas.x.get(u) is not None and j in self.formulas.capacity:
                migrations.append(Migration(u, int(self.load.at[u]), j))
                removed, added = trial.release(u), trial.added(u)
                old, source = trial.F.copy(), int(trial.at[u])
                if source != j:
                    trial.migrate(u, j)
                    close(old[source] - trial.F[source], removed, old.max())
                    close(trial.F[j] - old[j], added[j], old.max())
                self.formulas.x[u] = j
        agree(self.load.as_if(migrations), self.formulas)
        agree(trial.loads, self.formulas)
        close(trial.relative, trial.loads.relative)
        self.formulas.x = was
        assert (self.load.loads.F == before.F).all()

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "load"):
            agree(self.load.loads, self.formulas)
            close(self.load.lower_bound(), self.formulas.lower_bound())
            for j in self.formulas.capacity:
                here = [i for i, at in self.formulas.x.items() if at == j]
                assert self.load.subscribers(j) == sorted(here) and self.load.count[j] == len(here)


def close(ours, theirs, scale: float = 0.0) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 + 1e-12 * scale)


def agree(loads, formulas: Formulas) -> None:
    brokers = sorted(formulas.capacity)
    scale = max((formulas.F(j) for j in brokers), default=0.0)
    close(loads.I[brokers], [formulas.I(j) for j in brokers], scale)
    close(loads.O[brokers], [formulas.O(j) for j in brokers], scale)
    close(loads.F[brokers], [formulas.F(j) for j in brokers], scale)
    close(loads.mu, formulas.mu(), scale)
    close(loads.sigma, formulas.sigma(), scale * 1e3)
    if formulas.mu() > scale * 1e-9:
        np.testing.assert_allclose(loads.cov, formulas.cov(), rtol=1e-6, atol=1e-6)


Updates.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
TestUpdates = Updates.TestCase


def test_an_emptied_broker_has_exactly_zero_load():
    load = Load()
    load.broker(0)
    load.broker(1)
    load.rates([0, 1, 2], [0.1, 0.2, 0.3])
    for u in range(30):
        load.join(u, 0, [u % 3, (u + 1) % 3])
    for u in range(30):
        load.attach(u, 1)
    assert load.loads.F[0] == 0.0


def test_a_load_built_at_once_equals_one_built_step_by_step():
    rng = np.random.default_rng(3)
    one = Load()
    for j in range(4):
        one.broker(j, 1.0 + j)
    one.rates(np.arange(20), rng.random(20))
    for u in range(50):
        one.join(u, u % 4, rng.choice(20, 5, replace=False).tolist())
    all_ = Load.of(one.rows, one.lam, one.at, one.capacity)
    assert (all_.n == one.n).all() and (all_.count == one.count).all()
    close(all_.loads.F, one.loads.F)


def test_what_if_for_many_subscribers_equals_what_if_for_each():
    rng = np.random.default_rng(4)
    load = Load()
    for j in range(3):
        load.broker(j)
    load.rates(np.arange(30), rng.random(30))
    for u in range(40):
        load.join(u, u % 3, rng.choice(30, u % 7, replace=False).tolist())
    trial, us = WhatIf(load), np.arange(40)
    close(trial.releases(us), [trial.release(u) for u in us])
    close(trial.added_all(us), [trial.added(u) for u in us])
    close(trial.added_to(us, 2), [trial.added(u)[2] for u in us])


def test_a_broker_without_capacity_is_refused():
    with pytest.raises(ValueError, match="not above 0"):
        Load().broker(0, 0.0)
