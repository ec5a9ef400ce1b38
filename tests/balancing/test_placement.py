"""Placement of new subscribers: one contract for all policies, and the purpose of each."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from benchmarks.herd import herd
from hypothesis import given
from hypothesis import strategies as st

from tocsin.balancing.placement import PLACEMENTS, Candidate, NewSubscriber, kilometres, make
from tocsin.errors import NotFound

ALL = pytest.mark.parametrize("name", sorted(PLACEMENTS))
CANDIDATES = st.lists(
    st.builds(
        Candidate,
        broker=st.text("abcdef", min_size=1, max_size=3),
        load=st.floats(0, 1e6),
        capacity=st.sampled_from([0.5, 1.0, 4.0]),
        subscribers=st.integers(0, 5),
        max_subscribers=st.none() | st.integers(0, 5),
        open=st.booleans(),
        at=st.none() | st.tuples(st.floats(-90, 90), st.floats(-180, 180)),
    ),
    max_size=6,
    unique_by=lambda place: place.broker,
)
NEW_SUBSCRIBERS = st.builds(
    NewSubscriber,
    at=st.none() | st.tuples(st.floats(-90, 90), st.floats(-180, 180)),
    distances=st.dictionaries(st.sampled_from(["a", "b", "ab"]), st.floats(0.0, 1_000.0)),
)


@ALL
@given(candidates=CANDIDATES, who=NEW_SUBSCRIBERS, seed=st.integers(0, 9))
def test_every_policy_chooses_an_accepting_broker_and_repeats_its_choice(name, candidates, who, seed):
    found = make(name).place(who, candidates, Random(seed))
    assert found in ({place.broker for place in candidates if place.accepts} or {None})
    assert found == make(name).place(who, candidates, Random(seed)), "the same random numbers give the same broker"


def test_nearest_uses_round_trips_in_milliseconds_and_else_kilometres():
    candidates = [Candidate("helsinki", at=(60.2, 24.9)), Candidate("madrid", at=(40.4, -3.7)), Candidate("unknown")]
    nearest = make("nearest")
    turku = (60.45, 22.27)
    assert nearest.place(NewSubscriber(turku), candidates, Random(0)) == "helsinki"
    assert nearest.place(NewSubscriber(turku, {"madrid": 10.0, "helsinki": 20.0}), candidates, Random(0)) == "madrid"
    assert nearest.place(NewSubscriber(), candidates, Random(0)) in {"helsinki", "madrid", "unknown"}
    assert kilometres(turku, (60.2, 24.9)) == pytest.approx(147, abs=3)


def test_round_robin_continues_while_brokers_come_and_go():
    robin, two = make("round-robin"), [Candidate("a"), Candidate("c")]
    assert [robin.place(NewSubscriber(), two, Random(0)) for _ in range(3)] == ["a", "c", "a"]
    assert robin.place(NewSubscriber(), [Candidate("a"), Candidate("b"), Candidate("c")], Random(0)) == "b"
    assert robin.place(NewSubscriber(), [Candidate("a")], Random(0)) == "a"


@pytest.mark.parametrize("name", ["random", "two-choices"])
def test_strong_brokers_get_more_subscribers(name):
    placement, random = make(name), Random(1)
    got = Counter(
        placement.place(NewSubscriber(), [Candidate("a"), Candidate("b", capacity=3.0)], random) for _ in range(4000)
    )
    assert 2.5 < got["b"] / got["a"] < 3.7


def test_least_loaded_compares_by_capacity():
    assert (
        make("least-loaded").place(NewSubscriber(), [Candidate("a", 10.0), Candidate("b", 15.0, 2.0)], Random(0)) == "b"
    )


def test_stale_reports_cause_a_herd_with_least_loaded_and_not_with_two_choices():
    least, two = herd("least-loaded", every=500, seed=1), herd("two-choices", every=500, seed=1)
    assert least > 2.5 and two < 1.6
    assert herd("least-loaded", every=1, seed=1) < 1.1


def test_an_unknown_policy_is_refused():
    with pytest.raises(NotFound, match="two-choices"):
        make("unknown")
