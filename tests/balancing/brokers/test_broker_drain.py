from __future__ import annotations

from random import Random

from test_broker_load import model

from tocsin.balancing.brokers.broker_load import DRAIN, LOAD, SUBSCRIBERS
from tocsin.balancing.brokers.drain import Draining, For, GiveAway
from tocsin.balancing.host.guards import AtOnce, InFlight
from tocsin.balancing.host.information_registry import InformationRegistry
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.host.scope import Scope


def scope(draining: bool, *known: tuple[str, float, float]) -> Scope:
    load, _ = model(ann=[1], bob=[2])
    load.draining = draining
    registry = InformationRegistry()
    for peer, subscribers, drained in known:
        registry.register(LoadInformation(peer, SUBSCRIBERS, subscribers), 0.0)
        registry.register(LoadInformation(peer, DRAIN, drained), 0.0)
    return Scope("b", 0.0, load, registry, ["p", "q"], Random(1))


def test_a_drained_broker_gives_everything_to_the_broker_with_the_fewest():
    at = scope(True, ("p", 5.0, 0.0), ("q", 3.0, 0.0))
    assert Draining().make_decision(at, DRAIN) is LoadState.OVERLOADED
    target = GiveAway().select_target(at, DRAIN, LoadState.OVERLOADED)
    units = GiveAway().select_load_to_move(at, DRAIN, LoadState.OVERLOADED, "q")
    actions = list(GiveAway().rebalance(at, DRAIN, LoadState.OVERLOADED, "q", units))
    assert target == "q" and len(actions) == 2 and {each.target for each in actions} == {"q"}


def test_a_broker_that_is_drained_itself_gets_nothing():
    at = scope(True, ("p", 5.0, 0.0), ("q", 3.0, 3.0))
    assert GiveAway().select_target(at, DRAIN, LoadState.OVERLOADED) == "p"


def test_a_drained_broker_that_knows_no_other_asks_one():
    assert isinstance(GiveAway().select_target(scope(True), DRAIN, LoadState.OVERLOADED), Ask)


def test_others_have_nothing_to_give_away():
    assert Draining().make_decision(scope(False), DRAIN) is LoadState.NORMAL


def test_a_guard_counts_only_for_its_criteria():
    guard, at = For(frozenset({LOAD}), AtOnce(1)), scope(True)
    (action, _) = GiveAway().rebalance(at, DRAIN, LoadState.OVERLOADED, "q", ["x", "y"])
    assert guard.objection(at, LOAD, action, InFlight(1, {})) is not None
    assert guard.objection(at, DRAIN, action, InFlight(1, {})) is None
