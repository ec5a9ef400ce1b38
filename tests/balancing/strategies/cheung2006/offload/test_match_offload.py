"""T52: match offload."""

from __future__ import annotations

from offload_pairs import broker, pair

from tocsin.balancing.strategies.cheung2006.offload import match_offload


def test_the_least_traffic_goes_first():
    vectors = {0: 0b1111111111, 1: 0, 2: 0b1, 3: 0b11}
    both = pair(broker(60, 1.0, 0.1), broker(50, 1.0, 0.1), vectors, {0: 50, 1: 2, 2: 2, 3: 2})
    match_offload.select(both, overloaded=False)
    assert both.selection[:2] == [(1, 2), (2, 2)]


def test_of_equal_traffic_what_adds_less_to_the_acceptor_goes_first():
    vectors = {0: 0b01, 1: 0b10, 9: 0b10}
    both = pair(broker(60, 1.0, 0.1), broker(50, 1.0, 0.1), vectors, {0: 1, 1: 1}, accepting=[9])
    assert match_offload.next_card(both, overloaded=False).subscription == 1


def test_it_ends_when_both_match_as_fast():
    both = pair(broker(100, 0.1, 0.0), broker(20, 0.1, 0.0), {0: 0}, {0: 90})
    match_offload.select(both, overloaded=False)
    assert both.selection == [(0, 40)]  # within the balance percentage, with the fewest
    assert abs(match_offload.difference(both)) < 0.005


def test_subscriptions_without_traffic_change_nothing_else():
    both = pair(broker(100, 0.1, 0.3), broker(20, 0.1, 0.1), {0: 0}, {0: 90})
    before = both.ours.output_ratio, both.theirs.output_ratio, both.ours.input_rate
    match_offload.select(both, overloaded=False)
    assert (both.ours.output_ratio, both.theirs.output_ratio, both.ours.input_rate) == before


def test_an_overloaded_broker_goes_on_until_it_is_relieved():
    both = pair(broker(103, 5.0, 0.1, cpu=1.0), broker(20, 0.1, 0.0), {0: 0}, {0: 90})
    match_offload.select(both, overloaded=True)
    # Its processor is busy with a backlog, and gets relieved in proportion.
    assert both.selection == [(0, 11)] and 92 / 103 < 0.9 < 93 / 103


def test_nothing_goes_to_a_full_acceptor():
    both = pair(broker(100, 1.0, 0.1, cpu=1.0), broker(20, 0.1, 0.95), {0: 0b1}, {0: 90})
    match_offload.select(both, overloaded=True)
    assert both.selection == []
