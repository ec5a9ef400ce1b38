"""T53 to T55: output offload in two phases, and the guard."""

from __future__ import annotations

import math

import pytest
from offload_pairs import broker, pair

from tocsin.balancing.strategies.cheung2006.offload import output_offload
from tocsin.balancing.strategies.cheung2006.offload.guard import FIGURE, After, InputNotAbove
from tocsin.balancing.strategies.cheung2006.offload.output_offload import by_type, gamma
from tocsin.balancing.strategies.cheung2006.offload.report_card import ReportCard
from tocsin.errors import UserError

ALL = 0b1111111111


def two(**more):
    """0 covers 1 and 2; 3 is apart. The acceptor has 9, which is equal to what 1 needs."""
    vectors = {0: 0b1111100000, 1: 0b1100000000, 2: 0b0011000000, 3: 0b0000000011, 9: 0b1100000000}
    above = {1: [0, 9], 2: [0], 9: [0]}
    settings = {"accepting": [9], "above": above, **more}
    return pair(broker(40, 10.0, 0.8), broker(10, 2.0, 0.2), vectors, {0: 2, 1: 10, 2: 6, 3: 6}, **settings)


def test_phase_one_takes_what_the_acceptor_covers():
    both = two()
    output_offload.select(both, overloaded=False)
    number, count = both.selection[0]
    assert number == 1 and count == 10
    assert [number for number, _ in both.selection[1:]] and 1 not in dict(both.selection[1:])


def test_it_ends_within_phase_one_if_that_is_enough():
    vectors = {0: 0b1, 1: 0b10, 9: 0b1}
    both = pair(broker(40, 10.0, 0.5), broker(10, 2.0, 0.3), vectors, {0: 50, 1: 50}, accepting=[9], above={0: [9]})
    output_offload.select(both, overloaded=False)
    assert both.selection == [(0, 10)] and both.theirs.input_rate == 2.0


def test_types_are_ordered_by_what_they_save():
    def card(number, reduced, reducible, difference=0.1):
        return ReportCard(number, 1, difference, True, reduced, 1.0, reducible=reducible)

    types = by_type([card(1, 0, 0), card(2, 0, 3), card(3, 1, 1), card(4, 2, 2), card(5, 2, 2, 0.05)])
    assert [[each.subscription for each in cards] for cards in types] == [[5, 4, 3], [2], [1]]


def test_type_one_goes_before_a_better_fit_of_type_three():
    vectors = {0: 0b11000, 1: 0b00111, 2: 0b00100, 9: ALL}
    above = {0: [9], 1: [9], 2: [1, 9]}
    both = pair(
        broker(40, 10.0, 0.9),
        broker(10, 10.0, 0.1, slope=0.0001),
        vectors,
        {0: 1, 1: 1, 2: 40},
        accepting=[9],
        above=above,
    )
    first = output_offload.first_choice(both, 0b111, False, ())
    assert first.subscription in (0, 1) and first.reduced > 0


def test_descendants_of_a_choice_of_phase_two_come_next():
    both = two(accepting=[], above={1: [0], 2: [0]})
    output_offload.select(both, overloaded=False)
    order = [number for number, _ in both.selection]
    assert order.index(0) < order.index(2) if 0 in order and 2 in order else order


def test_gamma_prefers_much_output_for_little_input():
    assert gamma(2.0, 100.0, 5, 1.0) == 1_000.0
    assert gamma(2.0, 100.0, 5, 0.0) == math.inf


def test_subscriptions_without_output_stay():
    both = pair(broker(40, 10.0, 0.8), broker(10, 2.0, 0.2), {0: 0}, {0: 30})
    output_offload.select(both, overloaded=False)
    assert both.selection == []


def test_the_guard_holds_the_acceptors_input_down():
    guard = InputNotAbove()
    both = two()
    assert guard.excludes(both, After(0.5, 0.7, 0.5, 0.5), False)
    assert not guard.excludes(both, After(0.5, 0.55, 0.7, 0.3), False)
    assert not guard.excludes(both, After(0.7, 0.5, 0.9, 0.1), False)


def test_the_guard_as_the_figure_prints_it_compares_outputs():
    guard = InputNotAbove(FIGURE)
    both = two()
    assert guard.excludes(both, After(0.5, 0.55, 0.7, 0.3), False)
    # It does not exclude what Table 4.5 warns of.
    assert not guard.excludes(both, After(0.2, 0.8, 0.5, 0.5), False)


def test_an_overloaded_broker_may_go_on_to_the_lower_threshold():
    guard = InputNotAbove()
    both = two()
    assert not guard.excludes(both, After(0.2, 0.8, 0.93, 0.5), True)
    assert guard.excludes(both, After(0.2, 0.8, 0.85, 0.5), True)


def test_a_guard_that_compares_something_else_is_refused():
    with pytest.raises(UserError, match="compares is 'memory'"):
        InputNotAbove("memory")


def test_a_guarded_selection_never_ends_with_the_acceptors_input_above():
    vectors = {0: ALL, 1: 0b11}
    free = pair(broker(40, 10.0, 0.7), broker(30, 1.0, 0.3), vectors, {0: 2, 1: 10}, above={1: [0]})
    output_offload.select(free, overloaded=False)
    held = pair(broker(40, 10.0, 0.7), broker(30, 1.0, 0.3), vectors, {0: 2, 1: 10}, above={1: [0]})
    output_offload.select(held, overloaded=False, guards=[InputNotAbove()])
    assert free.theirs.input_ratio - free.ours.input_ratio > 0.1
    assert held.theirs.input_ratio - held.ours.input_ratio <= 0.1
