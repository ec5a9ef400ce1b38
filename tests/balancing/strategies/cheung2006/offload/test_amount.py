"""T46: the loop of figures 4.1, 4.5, 4.6 and 4.8."""

from __future__ import annotations

from tocsin.balancing.strategies.cheung2006.offload.amount import amount


def test_the_fewest_that_balance_are_chosen():
    assert amount(10, lambda count: count >= 4) == 4


def test_all_go_if_not_even_they_balance():
    assert amount(10, lambda count: False) == 10


def test_one_goes_if_one_balances():
    assert amount(10, lambda count: True) == 1


def test_none_goes_if_none_may():
    assert amount(0, lambda count: True) == 0


def test_what_a_guard_excludes_is_skipped():
    assert amount(10, lambda count: count >= 4, lambda count: count > 6) == 4
    assert amount(10, lambda count: count >= 8, lambda count: count > 6) == 6
    assert amount(10, lambda count: True, lambda count: True) == 0
