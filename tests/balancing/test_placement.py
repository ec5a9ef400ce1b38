"""Placement of newcomers: one contract for all, and what each is for."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from benchmarks.herd import herd
from hypothesis import given
from hypothesis import strategies as st

from tocsin.balancing.placement import PLACEMENTS, Newcomer, Place, make, way
from tocsin.errors import NotFound

ALL = pytest.mark.parametrize("name", sorted(PLACEMENTS))
PLACES = st.lists(
    st.builds(
        Place,
        broker=st.text("abcdef", min_size=1, max_size=3),
        load=st.floats(0, 1e6),
        capacity=st.sampled_from([0.5, 1.0, 4.0]),
        subscribers=st.integers(0, 5),
        most=st.none() | st.integers(0, 5),
        open=st.booleans(),
        at=st.none() | st.tuples(st.floats(-90, 90), st.floats(-180, 180)),
    ),
    max_size=6,
    unique_by=lambda place: place.broker,
)
NEWCOMERS = st.builds(
    Newcomer,
    at=st.none() | st.tuples(st.floats(-90, 90), st.floats(-180, 180)),
    rtt=st.dictionaries(st.sampled_from(["a", "b", "ab"]), st.floats(0.001, 1)),
)


@ALL
@given(places=PLACES, newcomer=NEWCOMERS, seed=st.integers(0, 9))
def test_the_contract(name, places, newcomer, seed):
    found = make(name).place(newcomer, places, Random(seed))
    assert found in ({place.broker for place in places if place.takes} or {None})
    assert found == make(name).place(newcomer, places, Random(seed)), "the same chance, the same place"


def test_the_nearest_is_by_round_trip_if_measured_and_by_way_otherwise():
    places = [Place("helsinki", at=(60.2, 24.9)), Place("madrid", at=(40.4, -3.7)), Place("unknown")]
    nearest = make("nearest")
    turku = (60.45, 22.27)
    assert nearest.place(Newcomer(turku), places, Random(0)) == "helsinki"
    assert nearest.place(Newcomer(turku, {"madrid": 0.01, "helsinki": 0.02}), places, Random(0)) == "madrid"
    assert nearest.place(Newcomer(), places, Random(0)) in {"helsinki", "madrid", "unknown"}
    assert way(turku, (60.2, 24.9)) == pytest.approx(147, abs=3)


def test_round_robin_goes_round_while_brokers_come_and_go():
    robin, two = make("round-robin"), [Place("a"), Place("c")]
    assert [robin.place(Newcomer(), two, Random(0)) for _ in range(3)] == ["a", "c", "a"]
    assert robin.place(Newcomer(), [Place("a"), Place("b"), Place("c")], Random(0)) == "b"
    assert robin.place(Newcomer(), [Place("a")], Random(0)) == "a"


@pytest.mark.parametrize("name", ["random", "two-choices"])
def test_the_strong_get_more(name):
    placement, random = make(name), Random(1)
    got = Counter(placement.place(Newcomer(), [Place("a"), Place("b", capacity=3.0)], random) for _ in range(4000))
    assert 2.5 < got["b"] / got["a"] < 3.7 or name == "two-choices"


def test_least_loaded_compares_by_capacity():
    assert make("least-loaded").place(Newcomer(), [Place("a", 10.0), Place("b", 15.0, 2.0)], Random(0)) == "b"


def test_stale_reports_make_a_herd_of_the_least_loaded_and_not_of_two_choices():
    least, two = herd("least-loaded", every=500, seed=1), herd("two-choices", every=500, seed=1)
    assert least > 2.5 and two < 1.6
    assert herd("least-loaded", every=1, seed=1) < 1.1


def test_a_name_that_does_not_exist_is_refused():
    with pytest.raises(NotFound, match="two-choices"):
        make("nobody")
