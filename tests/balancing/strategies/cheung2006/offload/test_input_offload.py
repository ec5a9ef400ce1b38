"""T44, T47 to T51: input offload."""

from __future__ import annotations

import pytest
from offload_pairs import broker, pair

from tocsin.balancing.strategies.cheung2006.offload import input_offload

ALL, HALF = 0b1111111111, 0b11111


def test_only_the_covering_set_is_considered():
    both = pair(broker(50, 10.0, 0.1), broker(5, 0.0, 0.0, total=1e6), {0: ALL, 1: HALF}, {0: 1, 1: 3}, above={1: [0]})
    assert [card.subscription for card in input_offload.report_cards(both)] == [0]


def test_a_card_says_what_one_subscription_brings():
    both = pair(broker(50, 10.0, 0.1), broker(5, 0.0, 0.0, total=1e6), {0: ALL, 1: HALF}, {0: 1, 1: 3}, above={1: [0]})
    card = input_offload.report_card(both, 0)
    assert card.subscribers == 1 and not card.covered
    assert card.reduced == pytest.approx(5.0)  # the other half is needed by its child
    assert card.output == pytest.approx(100.0)
    assert card.difference == pytest.approx(5.0 * 0.049 - 10.0 * 0.006)


def test_nothing_is_saved_while_a_subscriber_stays():
    both = pair(broker(500, 10.0, 0.1), broker(5, 0.0, 0.0, slope=0.002, total=1e6), {0: HALF}, {0: 400})
    card = input_offload.report_card(both, 0)
    assert 0 < card.subscribers < 400 and card.reduced == 0.0


def test_it_ends_when_both_are_equal():
    ours, theirs = broker(60, 10.0, 0.1), broker(10, 10.0, 0.0, total=1e6)
    vectors = dict.fromkeys(range(50), 1)
    both = pair(ours, theirs, vectors | {99: ALL}, dict.fromkeys(range(50), 1), accepting=[99])
    input_offload.select(both, overloaded=False)
    left = both.ours.input_ratio - both.theirs.input_ratio
    assert len(both.selection) == 25 and abs(left) < 0.02


def test_what_has_been_chosen_changes_both_brokers_and_the_acceptors_css():
    both = pair(broker(50, 10.0, 0.5), broker(5, 1.0, 0.1, total=1e6), {0: ALL, 1: HALF}, {0: 1, 1: 3}, above={1: [0]})
    extra = both.extra(1)
    both.offload(0, 1)
    assert both.ours.subscriptions == 49 and both.theirs.subscriptions == 6
    assert extra == pytest.approx(5.0) and both.extra(1) == 0.0
    assert both.candidates_of_css() == [1]  # its child is in the CSS now
    assert both.theirs.input_rate == pytest.approx(11.0) and both.ours.input_rate == pytest.approx(5.0)


def test_no_choice_makes_the_difference_larger():
    """One heavy subscription, which would only change its place."""
    both = pair(broker(50, 10.0, 0.1), broker(45, 9.0, 0.1, total=1e6), {0: ALL}, {0: 1})
    input_offload.select(both, overloaded=False)
    assert both.selection == []


def test_an_overloaded_broker_whose_css_cannot_go_sheds_matching_instead():
    vectors = {0: ALL, **dict.fromkeys(range(1, 40), 1)}
    subscribers = {0: 1, **dict.fromkeys(range(1, 40), 1)}
    above = {number: [0] for number in range(1, 40)}
    ours, theirs = broker(140, 10.0, 0.1), broker(1, 0.1, 0.85)
    both = pair(ours, theirs, vectors, subscribers, above=above)
    input_offload.select(both, overloaded=True)
    assert both.selection and all(number != 0 for number, _ in both.selection)
    assert all(count == 1 for _, count in both.selection)


def test_a_broker_that_is_not_overloaded_never_does_that():
    vectors = {0: ALL, **dict.fromkeys(range(1, 40), 1)}
    above = {number: [0] for number in range(1, 40)}
    both = pair(broker(80, 10.0, 0.1), broker(1, 0.1, 0.85), vectors, dict.fromkeys(range(40), 1), above=above)
    input_offload.select(both, overloaded=False)
    assert both.selection == []
