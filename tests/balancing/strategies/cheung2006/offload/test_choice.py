"""T48, T49: figures 4.2 and 4.3."""

from __future__ import annotations

import pytest

from tocsin.balancing.strategies.cheung2006.offload.choice import closest, in_order, relieving
from tocsin.balancing.strategies.cheung2006.offload.report_card import ReportCard


def card(number: int, difference: float, reduced: float = 0.0, subscribers: int = 1) -> ReportCard:
    return ReportCard(number, subscribers, difference, False, reduced, 0.0)


def test_ties_go_to_the_rate_saved_and_then_to_the_subscribers():
    cards = [card(1, 0.1), card(2, 0.1, reduced=2.0), card(3, 0.1, reduced=2.0, subscribers=5), card(4, -0.2)]
    assert [each.subscription for each in in_order(cards)] == [4, 3, 2, 1]
    assert closest(in_order(cards), 1.0).subscription == 3


@pytest.mark.parametrize(
    ("differences", "chosen"), [([-0.3, -0.1, 0.2], -0.1), ([-0.3, 0.05, 0.2], 0.05), ([0.1, 0.2], 0.1), ([-0.2], -0.2)]
)
def test_the_difference_closest_to_0_wins(differences, chosen):
    assert closest([card(n, each) for n, each in enumerate(differences)], 1.0).difference == chosen


def test_nothing_is_chosen_that_makes_it_worse():
    assert closest([card(1, 0.3)], 0.2) is None
    assert closest([card(1, -0.3)], 0.2) is None
    assert closest([card(1, 0.2)], 0.2) is not None
    assert closest([], 1.0) is None


@pytest.mark.parametrize(
    ("differences", "chosen"), [([-0.5, -0.3, 0.1], -0.3), ([0.1, 0.2], 0.1), ([-0.5, -0.4], -0.4)]
)
def test_an_overloaded_broker_may_become_the_less_loaded_one(differences, chosen):
    assert relieving([card(n, each) for n, each in enumerate(differences)]).difference == chosen


def test_an_overloaded_broker_without_cards_has_no_choice():
    assert relieving([]) is None
