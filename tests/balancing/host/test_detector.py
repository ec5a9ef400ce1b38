from __future__ import annotations

import pytest
from host_network import Items, scope

from tocsin.balancing.host.detector import Absolute, Relative, compared
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.errors import UserError

OVER, NORMAL, UNDER = LoadState.OVERLOADED, LoadState.NORMAL, LoadState.UNDERLOADED


@pytest.mark.parametrize(
    ("measured", "state"),
    [(11.0, OVER), (10.99, NORMAL), (9.0, NORMAL), (8.99, UNDER), (0.0, UNDER)],
)
def test_a_load_is_compared_as_in_algorithm_1(measured, state):
    assert compared(measured, 10.0, 1.1, 0.9) is state


@pytest.mark.parametrize(("load", "state"), [(9.9, NORMAL), (10.0, OVER), (0.0, NORMAL)])
def test_absolute_needs_nothing_but_its_threshold_and_finds_no_underload(load, state):
    assert Absolute(10.0).make_decision(scope(Items({"u": load})), "items") is state


def about(peer, load, criterion="items"):
    return LoadInformation(peer, criterion, load)


@pytest.mark.parametrize(("load", "state"), [(22.0, OVER), (21.0, NORMAL), (18.0, NORMAL), (17.9, UNDER)])
def test_relative_compares_with_the_mean_of_the_other_peers(load, state):
    known = [about("b", 10.0), about("c", 30.0), about("d", 1e9, "events"), about("a", 1e9)]
    assert Relative(1.1, 0.9).make_decision(scope(Items({"u": load}), *known), "items") is state


def test_without_information_a_peer_is_normal():
    assert Relative().make_decision(scope(Items({"u": 5.0})), "items") is NORMAL


def test_among_empty_peers_any_load_is_too_much_and_none_is_normal():
    assert Relative().make_decision(scope(Items({"u": 5.0}), about("b", 0.0)), "items") is OVER
    assert Relative().make_decision(scope(Items({}), about("b", 0.0)), "items") is NORMAL


@pytest.mark.parametrize(("k1", "k2"), [(0.9, 1.1), (1.0, -0.1), (float("nan"), 0.5), (1.0, float("nan"))])
def test_factors_that_cannot_work_are_refused(k1, k2):
    for make in (lambda: Relative(k1, k2), lambda: Absolute(1.0, k1, k2)):
        with pytest.raises(UserError, match="k1"):
            make()
