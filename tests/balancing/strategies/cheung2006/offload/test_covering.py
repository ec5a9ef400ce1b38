"""T5, T53: the covering subscription set, and Phase I's walk, against the content poset."""

from __future__ import annotations

from tocsin.balancing.strategies.cheung2006.offload.covering import Covering, members, set_of
from tocsin.simulation.edges.matches import Matches
from tocsin.simulation.edges.workload import Size, generate

#: 0 covers 1 and 2, 1 covers 2; 3 stands alone.
COVERING = Covering({0: 0, 1: set_of([0]), 2: set_of([0, 1]), 3: 0})


def test_the_css_has_what_no_other_covers():
    assert COVERING.css(set_of([0, 1, 2, 3])) == [0, 3]
    assert COVERING.css(set_of([1, 2])) == [1]
    assert COVERING.css(0) == []


def test_equal_and_covered_subscriptions_need_no_new_input():
    assert COVERING.covered(2, set_of([1])) and COVERING.covered(1, set_of([1]))
    assert not COVERING.covered(0, set_of([1])) and not COVERING.covered(3, set_of([0, 1, 2]))


def test_the_walk_finds_all_that_is_covered():
    assert set(members(COVERING.covered_set(set_of([0, 1, 2, 3]), set_of([1])))) == {1, 2}
    assert set(members(COVERING.covered_set(set_of([0, 1, 2, 3]), set_of([0])))) == {0, 1, 2}


def test_the_walk_equals_a_comparison_of_all():
    workload = generate(Size(publishers=6, subscribers=120, seconds=2_000), 3)
    covering = Matches(workload).covering()
    everything = set_of(range(len(workload.subscriptions)))
    present, by = everything & 0x5555555555555555555555, everything & 0x3333
    plain = {each for each in members(present) if covering.covered(each, by)}
    assert set(members(covering.covered_set(present, by))) == plain
