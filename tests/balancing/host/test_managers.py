from __future__ import annotations

from itertools import count, pairwise
from random import Random

import pytest
from host_network import Items, scope

from tocsin.balancing.host.exchanger import PullFromRandom, PushToNeighbours
from tocsin.balancing.host.information_registry import InformationRegistry
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.host.managers import PULLS, Clock, Concern, LoadBalancingManager, LoadInformationManager
from tocsin.balancing.host.messages import Report


class Spy:
    """A detector and a balancer that write down how they are called."""

    actions = frozenset()

    def __init__(self, calls, state=LoadState.OVERLOADED, target="b"):
        self.calls, self.state, self.target = calls, state, target

    def make_decision(self, scope, criterion):
        self.calls.append(f"decide {criterion}")
        return self.state

    def select_target(self, scope, criterion, state):
        self.calls.append(f"target {criterion} {state.value}")
        return self.target

    def select_load_to_move(self, scope, criterion, state, target):
        self.calls.append(f"load {criterion} for {target}")
        return ["u"]

    def rebalance(self, scope, criterion, state, target, load):
        self.calls.append(f"rebalance {criterion} {target} {load}")
        return [f"action of {criterion}"]


def manager(*spies):
    return LoadBalancingManager([Concern(name, spy, spy) for name, spy in spies], Clock(1.0))


def test_an_iteration_selects_the_target_then_the_load_then_rebalances():
    calls = []
    found = list(manager(("disk", Spy(calls))).perform_one_load_balancing_iteration(scope()))
    assert calls == ["decide disk", "target disk overloaded", "load disk for b", "rebalance disk b ['u']"]
    assert found == [("disk", "action of disk")]


def test_an_iteration_goes_through_all_criteria_in_order_of_priority():
    calls = []
    made = manager(
        ("cpu", Spy(calls)), ("disk", Spy(calls, LoadState.NORMAL)), ("net", Spy(calls, LoadState.UNDERLOADED))
    )
    found = list(made.perform_one_load_balancing_iteration(scope()))
    assert [call for call in calls if call.startswith("decide")] == ["decide cpu", "decide disk", "decide net"]
    assert found == [("cpu", "action of cpu"), ("net", "action of net")]
    assert "target net underloaded" in calls


def test_without_a_target_no_load_is_selected():
    calls = []
    assert list(manager(("cpu", Spy(calls, target=None))).perform_one_load_balancing_iteration(scope())) == []
    assert calls == ["decide cpu", "target cpu overloaded"]


def test_a_question_ends_the_iteration_of_its_criterion_only():
    calls = []
    made = manager(("cpu", Spy(calls, target=Ask("c"))), ("disk", Spy(calls)))
    assert list(made.perform_one_load_balancing_iteration(scope())) == [("cpu", Ask("c")), ("disk", "action of disk")]
    calls.clear()
    assert list(made.perform_one_load_balancing_iteration(scope(), "disk")) == [("disk", "action of disk")]
    assert "decide cpu" not in calls


def test_concerns_that_share_a_criterion_report_it_once():
    made = manager(("load", Spy([])), ("load", Spy([])), ("disk", Spy([])))
    assert made.criteria == ["load", "disk"] and len(made.balancers("load")) == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_clock_is_due_once_in_each_period_more_or_less(seed):
    rng, clock = Random(seed), Clock(10.0)
    clock.start(100.0, rng)
    assert 100.0 <= clock.due_at <= 110.0
    times = [second / 10 for second in range(1_000, 2_000) if clock.due(second / 10, rng)]
    assert all(8.0 <= later - earlier <= 12.1 for earlier, later in pairwise(times))


def information(exchanger, lifetime=90.0, **fields):
    return LoadInformationManager(exchanger, InformationRegistry(lifetime), Clock(1.0), count(1), **fields)


def test_an_exchange_pushes_the_load_by_each_criterion():
    here = scope(Items({"u": 4.0}, ("disk", "cpu")), neighbours=("b",))
    made = information(PushToNeighbours(), units=True, threshold=9.0)
    [(peer, push)] = made.perform_load_information_exchange(here, ["disk", "cpu"])
    assert peer == "b" and [each.criterion for each in push.information] == ["disk", "cpu"]
    assert push.information[0] == LoadInformation("a", "disk", 4.0, threshold=9.0, units=(("u", 4.0),))


def test_a_report_answers_a_numbered_pull_once_and_in_time():
    here = scope(neighbours=("b", "c"))
    made = information(PullFromRandom(2))
    pulls = [pull for _, pull in made.perform_load_information_exchange(here, ["items"])]
    assert [pull.number for pull in pulls] == [1, 2]
    assert made.answered(Report(1, ()), 5.0) is not None
    assert made.answered(Report(1, ()), 5.0) is None
    assert made.answered(Report(2, ()), 90.0) is None
    assert made.answered(Report(77, ()), 5.0) is None


def test_pulls_that_wait_at_the_same_time_are_limited():
    made = information(PullFromRandom(1))
    here = scope(neighbours=("b",))
    asked = [pull for _ in range(2 * PULLS) for pull in made.perform_load_information_exchange(here, [])]
    assert len(asked) == PULLS
    later = scope(neighbours=("b",), now=91.0)
    assert len(list(made.perform_load_information_exchange(later, []))) == 1


@pytest.mark.parametrize(
    "lie",
    [
        LoadInformation("a", "items", 1.0),
        LoadInformation("b", "unknown", 1.0),
        LoadInformation("b", "items", -1.0),
        LoadInformation("b", "items", float("nan")),
        LoadInformation("b", "items", float("inf")),
    ],
)
def test_information_that_cannot_be_right_is_not_registered(lie):
    made = information(PushToNeighbours())
    made.register([lie, LoadInformation("c", "items", 2.0)], ["items"], scope())
    assert [each.peer for each in made.registry.get_load_report("items")] == ["c"]
