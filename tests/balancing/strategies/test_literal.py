"""LDM, SDM, GSH make the migrations of the printed algorithms, and peal's repair those of its plain form."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from clusters import clusters
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from literal_debs2019 import Literal, Undefined
from literal_peal import LiteralPeal

from seeds import examples
from tocsin.balancing.model.load import Load
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies import registry
from tocsin.balancing.strategies.debs2019.gsh import gsh, shuffle
from tocsin.balancing.strategies.peal.peal import peal
from tocsin.balancing.strategies.strategy import manager_of, plan_scope


def literal(load: Load, kind: type[Literal] = Literal) -> Literal:
    return kind([set(load.rows[u].tolist()) for u in range(len(load.at))], load.at.tolist(), load.lam, load.m)


def played(strategy: str, view: WhatIf, alpha: float, beta: float) -> Iterator[Migration]:
    """As the algorithm makes them, before a subscriber that migrates twice goes straight to its last broker."""
    manager = manager_of(registry.make(strategy, alpha=alpha, beta=beta))
    return manager.iterate_to_rest(plan_scope(view, 0.0), manager.concerns[0])


@pytest.mark.parametrize("strategy", ["ldm", "sdm"])
@settings(deadline=None, max_examples=examples(60))
@given(load=clusters(plain=True), alpha=st.sampled_from([0.05, 0.15, 0.4]), beta=st.sampled_from([0.0, 500.0]))
def test_ldm_and_sdm_make_the_printed_migrations(strategy, load, alpha, beta):
    reference = literal(load)
    try:
        printed = reference.migrate(strategy.upper(), alpha, beta)
    except Undefined:
        assume(False)
    view = WhatIf(load)
    ours = [
        (migration.subscriber, migration.source, migration.target) for migration in played(strategy, view, alpha, beta)
    ]
    assert ours == printed
    assert view.F.tolist() == reference.F


@settings(deadline=None, max_examples=examples(60))
@given(load=clusters(plain=True))
def test_the_shuffle_makes_the_printed_migrations(load):
    reference = literal(load)
    before = max(reference.F)
    printed = reference.shuffle()
    us, targets, highest = shuffle(WhatIf(load))
    assert dict(zip(us.tolist(), targets.tolist(), strict=True)) == dict(enumerate(reference.x))
    assert highest == max(reference.F)
    ours = sorted(
        (migration.subscriber, migration.source, migration.target) for migration in gsh(0.0).suggest(WhatIf(load))
    )
    assert ours == (sorted(printed) if max(reference.F) < before * (1 - 1e-9) and WhatIf(load).loads.cov > 0 else [])


@settings(deadline=None, max_examples=examples(200))
@given(load=clusters(plain=True, largest=80), trigger=st.sampled_from([0.0, 0.05]))
def test_repair_makes_the_migrations_of_its_plain_form(load, trigger):
    plain = literal(load, LiteralPeal).repair(trigger)
    ours = peal(mode="repair", trigger=trigger).suggest(WhatIf(load))
    assert [(migration.subscriber, migration.source, migration.target) for migration in ours] == plain
