from __future__ import annotations

from tocsin.broker.core.model.departures import TIMEOUT, Departures


def begun(*names: str) -> Departures:
    found = Departures()
    found.begin("s", 0, "b", [(name, f"ticket of {name}") for name in names], 0.0)
    return found


def test_a_departure_ends_when_all_have_left():
    departures = begun("x", "y")
    assert departures.ended(lambda name: name == "y", 1.0) == []
    assert "x" not in departures and "y" in departures
    (ended,) = departures.ended(lambda name: False, 2.0)
    assert (ended.session, ended.left, len(departures)) == ("s", 2, 0)


def test_one_that_refuses_stays_and_does_not_count():
    departures = begun("x", "y")
    assert departures.refused("ticket of x") and not departures.refused("ticket of x")
    (ended,) = departures.ended(lambda name: name == "x", 1.0)
    assert ended.left == 1


def test_those_who_do_not_leave_in_time_stay():
    departures = begun("x")
    assert departures.ended(lambda name: True, TIMEOUT - 1) == []
    (ended,) = departures.ended(lambda name: True, TIMEOUT)
    assert ended.left == 0 and not list(departures)


def test_a_second_departure_of_a_subscriber_does_not_end_with_the_first():
    departures = begun("x")
    departures.begin("t", 0, "c", [("x", "other")], 1.0)
    departures.refused("ticket of x")
    assert "x" in departures
