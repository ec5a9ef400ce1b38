"""PEER's way: a difference of load is evened out client by client."""

from __future__ import annotations

import pytest
from edge_scope import model, scope
from edge_tables import B0, B1, filled, overloaded, use

from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.strategies.tao2013.broker_report import report
from tocsin.balancing.strategies.tao2013.even_out import EvenOut, LoadDifference
from tocsin.balancing.strategies.tao2013.metrics import UPLINK, LoadTable, Role
from tocsin.errors import UserError

HEAVY = LoadState.OVERLOADED


def known(**loads: float) -> list[LoadInformation]:
    return [LoadInformation(peer, UPLINK, load) for peer, load in loads.items()]


@pytest.mark.parametrize(
    ("megabits", "others", "state"),
    [
        (4.0, {"b0": 0.45}, LoadState.NORMAL),
        (4.0, {"b0": 0.35}, HEAVY),
        (4.0, {"b0": 0.35, "b2": 0.92}, LoadState.NORMAL),  # one that is overloaded comes first
        (4.0, {}, LoadState.NORMAL),
        (7.5, {"b0": 0.1}, LoadState.NORMAL),  # its own overload is another stage's
    ],
)
def test_a_difference_is_detected(megabits, others, state):
    here = scope(model(filled(B1, megabits)), known=known(**others))
    assert LoadDifference().make_decision(here, UPLINK) is state


@pytest.mark.parametrize("difference", [0.0, -0.1, 1.0, float("nan")])
def test_differences_that_cannot_be(difference):
    with pytest.raises(UserError, match="difference"):
        LoadDifference(difference)


def test_the_least_loaded_broker_is_asked():
    here = scope(model(overloaded()), known=known(b0=0.5, b2=0.4, b3=0.93))
    ask = EvenOut().select_target(here, UPLINK, HEAVY)
    assert isinstance(ask, Ask) and ask.recipient == "b2"
    assert EvenOut().select_target(scope(model(overloaded()), known=known(b3=0.93)), UPLINK, HEAVY) is None
    assert EvenOut().select_target(here, UPLINK, LoadState.UNDERLOADED) is None


def test_clients_migrate_until_the_difference_would_grow():
    source = LoadTable.of(B1, Role.EDGE, [use("1", 100, 10, 400), use("2", 50, 4, 100)])
    target = LoadTable(B0, Role.EDGE)
    units = EvenOut().chosen(source, target, UPLINK)
    left, there = source.without(units), target
    for unit in units:
        part = source.part(unit)
        assert part is not None
        there = there.including(part)
    gap = abs(left.metric(UPLINK) - there.metric(UPLINK))
    assert gap < 0.03 < source.metric(UPLINK)
    here = scope(model(source), report("b0", target))
    choice = EvenOut().select_target(here, UPLINK, HEAVY)
    assert choice == ("b0", units)
    (action,) = EvenOut().rebalance(here, UPLINK, HEAVY, choice, choice)
    assert action.units == units and action.load == pytest.approx(source.metric(UPLINK) - left.metric(UPLINK))


def test_the_acceptor_stays_below_the_lower_threshold():
    units = EvenOut().chosen(overloaded(), filled(B0, 5.7), UPLINK)
    there = filled(B0, 5.7)
    for unit in units:
        part = overloaded().part(unit)
        assert part is not None
        there = there.including(part)
    assert units == () or there.metric(UPLINK) < 0.9
