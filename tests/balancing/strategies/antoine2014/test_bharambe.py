from __future__ import annotations

from math import sqrt

import pytest
from peer_scope import about, scope

from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.strategies.antoine2014.bharambe import HalfTheDifference, LeaveAndRejoin, LocalLoad, Sampling
from tocsin.errors import UserError

OTHERS = [about("p", 1.0), about("q", 1.0), about("r", 1.0)]


@pytest.mark.parametrize(
    ("load", "state"),
    [(3.0, LoadState.OVERLOADED), (1.0, LoadState.NORMAL), (0.2, LoadState.UNDERLOADED)],
)
def test_heavy_is_above_alpha_times_the_mean_and_light_below_its_part(load, state):
    assert LocalLoad().make_decision(scope(servers={"v": load}, known=OTHERS), "load") is state


def test_alpha_is_at_least_the_root_of_two():
    LocalLoad(sqrt(2))
    with pytest.raises(UserError, match="√2"):
        LocalLoad(1.41)


def test_local_load_is_the_mean_of_a_peer_and_its_neighbours():
    detector = LocalLoad(around=lambda scope: ("p", "q"))
    at = scope(servers={"v": 4.0}, known=[about("p", 1.0), about("q", 1.0), about("r", 8.0)])
    assert detector.local(at, "load") == 2.0
    assert LocalLoad().local(at, "load") == 4.0


def test_without_samples_a_peer_is_normal():
    assert LocalLoad().make_decision(scope(servers={"v": 9.0}), "load") is LoadState.NORMAL


def test_samples_are_random_walks_and_neighbours_are_asked_directly():
    at = scope()
    exchanger = Sampling(samples=3, ttl=4, around=lambda scope: ("near",))
    recipients = exchanger.recipients(at)
    assert len(recipients) == 4 and recipients[-1] == "near" and set(recipients[:3]) <= set(at.neighbours)
    pulls = list(exchanger.exchange_load_information(at, recipients, []))
    assert [pull.ttl for _, pull in pulls] == [4, 4, 4, 0]
    assert exchanger.recipients(scope(neighbours=())) == ["near"]


@pytest.mark.parametrize(("samples", "ttl"), [(0, 3), (1, -1)])
def test_samples_that_make_no_sense_are_refused(samples, ttl):
    with pytest.raises(UserError, match="samples"):
        Sampling(samples, ttl)


def test_a_heavy_peer_gives_half_of_the_difference_to_the_lightest():
    at = scope(servers={f"v{n}": 1.0 for n in range(10)}, known=[about("p", 1.0), about("q", 0.0), about("r", 4.0)])
    balancer = HalfTheDifference()
    assert balancer.select_target(at, "load", LoadState.OVERLOADED) == "q"
    units = balancer.select_load_to_move(at, "load", LoadState.OVERLOADED, "q")
    assert len(units) == 5
    (action,) = balancer.rebalance(at, "load", LoadState.OVERLOADED, "q", units)
    assert (action.source, action.target, action.load) == ("me", "q", 5.0)


def test_a_light_peer_waits_until_a_heavy_one_finds_it():
    at = scope(known=OTHERS)
    assert HalfTheDifference().select_target(at, "load", LoadState.UNDERLOADED) is None


def test_a_unit_larger_than_half_of_the_difference_stays():
    at = scope(servers={"v": 9.0}, known=[about("q", 0.0)])
    assert HalfTheDifference().select_load_to_move(at, "load", LoadState.OVERLOADED, "q") == []


def test_the_lightest_peer_leaves_its_place_and_joins_beside_a_heavy_one():
    at = scope(servers={"v": 8.0}, known=[about("p", 1.0), about("q", 0.5), about("r", 2.0)])
    balancer = LeaveAndRejoin()
    assert balancer.select_target(at, "load", LoadState.OVERLOADED) == "q"
    (action,) = balancer.rebalance(at, "load", LoadState.OVERLOADED, "q", ())
    assert (action.source, action.target, action.load, action.executor) == ("me", "q", 4.0, "q")


def test_a_peer_with_heavy_neighbours_that_has_little_itself_asks_no_other():
    at = scope(servers={"v": 1.0}, known=[about("p", 9.0), about("q", 0.0)])
    assert LeaveAndRejoin().select_target(at, "load", LoadState.OVERLOADED) is None
