"""The uplink is divided fairly among the queues of topics."""

from __future__ import annotations

import math

import pytest
from edge_tables import overloaded
from hypothesis import given
from hypothesis import strategies as st

from tocsin.balancing.strategies.tao2013.fair_share import fair_share, output_rates


def test_a_topic_that_needs_little_gets_all_of_it_and_the_rest_is_shared():
    assert fair_share(8.0, {"a": 1.0, "b": math.inf, "c": math.inf}) == {"a": 1.0, "b": 3.5, "c": 3.5}


def test_topics_that_did_not_rise_keep_their_rate():
    rates = output_rates(overloaded())
    assert rates["1"] == pytest.approx(400) and rates["3"] == pytest.approx(250) and rates["14"] == pytest.approx(600)
    assert rates["8"] == pytest.approx(1225)  # of the 1,400 that arrive


def test_without_topic_1_the_queue_falls():
    assert output_rates(overloaded().without(["1"]))["8"] == pytest.approx(1425)


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1e6), max_size=8), st.floats(0, 1e6))
def test_it_gives_no_more_than_there_is_nor_than_is_asked(demands, capacity):
    given_ = fair_share(capacity, demands)
    assert sum(given_.values()) <= capacity * (1 + 1e-9)
    assert all(given_[name] <= demands[name] for name in demands)
    short = [given_[name] for name in demands if given_[name] < demands[name] * (1 - 1e-9)]
    assert all(each >= max(given_.values()) * (1 - 1e-6) for each in short)  # none that is short gets less than another
    assert not short or sum(given_.values()) >= capacity * (1 - 1e-9)
