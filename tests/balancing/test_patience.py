"""Plans that only pay in the long run wait until it is sure that they do, and do not come too often."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin.balancing.balancer import Balancer, answer
from tocsin.balancing.model.load import Load
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.rows import Rows
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.regroup_gate import LONGEST, MARGIN, RegroupGate, Stage, Wish
from tocsin.balancing.strategies.strategy import MinMax

WISH = Wish(moves=100, looks=3, pause=600.0)


def test_a_wish_waits_until_it_was_there_at_several_looks_in_a_row():
    patience = RegroupGate()
    for now, wish in enumerate([WISH, WISH, None, WISH, WISH]):
        assert patience.stage(now) is Stage.ASK
        patience.heard(now, wish, made=5)
    patience.heard(5.0, WISH, made=5)
    assert patience.stage(6.0) is Stage.GO


def test_as_many_moves_as_were_wished_for_then_a_rest():
    patience, made = granted(RegroupGate(), 0.0), 0
    now = 10.0
    while patience.stage(now) is Stage.GO:
        patience.heard(now, WISH, made=30)
        made, now = made + 30, now + 10
    assert 100 <= made <= MARGIN * 100 + 30
    assert patience.stage(now) is Stage.REST
    assert patience.stage(now + WISH.pause) is Stage.ASK


def test_who_wishes_again_and_again_rests_longer_each_time():
    patience, now, rests = RegroupGate(), 0.0, []
    for _ in range(6):
        patience = granted(patience, now)
        patience.heard(now, WISH, made=1_000)
        rests.append((patience.until - now) / WISH.pause)
        now = patience.until
    assert rests == [1, 2, 4, LONGEST, LONGEST, LONGEST]


def test_who_has_no_wish_for_a_while_is_let_off():
    patience, now = RegroupGate(rests=LONGEST), 0.0
    for _ in range(3):
        patience.heard(now, None, made=0)
    assert patience.rests == 1


def test_a_plan_that_has_become_pointless_is_no_reason_to_rest():
    patience = granted(RegroupGate(), 0.0)
    patience.heard(10.0, None, made=0)
    assert patience.stage(20.0) is Stage.ASK


def test_who_has_looked_in_vain_looks_again_after_a_while():
    patience = RegroupGate()
    patience.heard(0.0, WISH, made=0)
    patience.heard(10.0, Wish(0, 3, 600.0), made=0)
    assert patience.looks == 0
    assert [patience.stage(now) for now in (11.0, 69.0, 70.0)] == [Stage.REST, Stage.REST, Stage.ASK]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 200)), max_size=300))
def test_however_it_is_asked_moves_are_bounded_by_time(looks):
    """Looks every 10 s: never more than about one plan in a pause, whatever is wished for."""
    patience, total = RegroupGate(), 0
    for number, (wished, made) in enumerate(looks):
        now = number * 10.0
        going = patience.stage(now) is Stage.GO
        made = min(made, 100) if going and wished else 0
        total += made
        patience.heard(now, WISH if wished else None, made)
    pauses = 1 + len(looks) * 10.0 / WISH.pause
    cancelled = sum(not wished for wished, _ in looks)
    assert total <= (pauses + cancelled) * (MARGIN * 100 + 101)


def granted(patience: RegroupGate, now: float) -> RegroupGate:
    for _ in range(WISH.looks):
        patience.heard(now, WISH, made=0)
    assert patience.stage(now) is Stage.GO
    return patience


class Wishful(MinMax):
    """Would move everybody of the first broker to the second, and moves one if it may not."""

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        if view.stage is Stage.REST:
            return
        people = view.subscribers(0).tolist()
        if people:
            view.wish = Wish(len(people), 2, 100.0)
            for u in people if view.stage is Stage.GO else people[:1]:
                yield Migration(u, 0, 1, 1.0)


def balancer() -> Balancer:
    """The second broker is so strong that everybody may go there."""
    load = Load.of(Rows([[0]] * 12 + [[1]]), np.array([1.0, 100.0]), np.array([0] * 12 + [1]), np.array([1.0, 1e3]))
    return Balancer(load, Wishful())


def test_a_balancer_lets_its_strategy_know():
    one = balancer()
    assert [len(one.plan(look * 10.0).moves) for look in range(4)] == [1, 1, 10, 0]


def test_a_plan_made_apart_waits_as_well():
    one = balancer()
    counts = [len(one.adopt(answer(one.ask(look * 10.0)), look * 10.0).moves) for look in range(4)]
    assert counts == [1, 1, 10, 0]
