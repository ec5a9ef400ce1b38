from __future__ import annotations

import pytest
from peer_scope import about, scope

from tocsin.balancing.host.actions import Split
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.strategies.antoine2014.eventcloud import FromPool, NeighboursEstimate
from tocsin.errors import UserError

OVER, NORMAL, UNDER = LoadState.OVERLOADED, LoadState.NORMAL, LoadState.UNDERLOADED


@pytest.mark.parametrize(("load", "state"), [(11.0, OVER), (10.9, NORMAL), (0.0, NORMAL)])
def test_too_much_is_k1_times_the_mean_of_the_neighbours_or_more(load, state):
    known = [about("p", 5.0), about("q", 15.0)]
    assert NeighboursEstimate(1.1).make_decision(scope(servers={"z": load}, known=known), "load") is state


def test_only_immediate_neighbours_count():
    known = [about("p", 10.0), about("far", 1000.0)]
    assert NeighboursEstimate().make_decision(scope(servers={"z": 11.0}, known=known), "load") is OVER


def test_everything_is_too_much_for_a_peer_that_is_alone_and_nothing_is_not():
    assert NeighboursEstimate().make_decision(scope(servers={"z": 1.0}, neighbours=()), "load") is OVER
    assert NeighboursEstimate().make_decision(scope(neighbours=()), "load") is NORMAL


def test_k1_below_k2_is_refused():
    with pytest.raises(UserError, match="k1"):
        NeighboursEstimate(0.5, 0.9)


def test_the_target_is_of_the_pool_and_not_in_use():
    balancer = FromPool(["p", "idle", "me"])
    assert balancer.select_target(scope(), "load", OVER) == "idle"
    balancer.refused(Split("me", "idle"), "this peer has a region of its own", 0.0)
    assert balancer.select_target(scope(), "load", OVER) is None


@pytest.mark.parametrize("state", [NORMAL, UNDER])
def test_only_an_overloaded_peer_gives_something_away(state):
    assert FromPool(["idle"]).select_target(scope(), "load", state) is None


def test_half_of_the_load_is_cut_off_by_the_rule():
    (action,) = FromPool(["idle"], "middle").rebalance(scope(servers={"z": 8.0}), "load", OVER, "idle", ())
    assert action == Split("me", "idle", 4.0, "cut: middle", "middle")
