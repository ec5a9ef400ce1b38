from __future__ import annotations

import pytest
from host_network import Items, scope

from tocsin.balancing.host.actions import Migrate
from tocsin.balancing.host.guards import AtOnce, CoolDown, InFlight, NeverAbove, WithinCapacity
from tocsin.balancing.host.load_information import LoadInformation

COMES, GOES = Migrate("b", "a", 3.0, "", ("u",)), Migrate("a", "b", 3.0, "", ("u",))
NONE = InFlight(0, {})


def objects(guard, action, in_flight=NONE, here=None, **fields):
    return guard.objection(here or scope(**fields), "items", action, in_flight) is not None


@pytest.mark.parametrize(("now", "refused"), [(10.0, True), (69.9, True), (70.0, False), (9e9, False)])
def test_a_unit_rests_after_it_has_moved(now, refused):
    assert objects(CoolDown(60.0), GOES, InFlight(0, {"u": 10.0}), now=now) is refused
    assert not objects(CoolDown(60.0), GOES, InFlight(0, {"v": 10.0}), now=now)


def test_no_more_sessions_are_open_at_once_than_allowed():
    assert not objects(AtOnce(2), GOES, InFlight(1, {}))
    assert objects(AtOnce(2), GOES, InFlight(2, {}))


@pytest.mark.parametrize(("here", "arriving", "refused"), [(7.0, 0.0, False), (7.1, 0.0, True), (5.0, 2.5, True)])
def test_the_target_stays_within_its_capacity_with_what_is_arriving(here, arriving, refused):
    model = Items({"v": here}, most=10.0)
    assert objects(WithinCapacity(), COMES, InFlight(0, {}, arriving), model=model) is refused
    assert not objects(WithinCapacity(), GOES, InFlight(0, {}, arriving), model=model)


def test_a_share_of_the_capacity_can_stay_free():
    assert objects(WithinCapacity(0.5), COMES, model=Items({"v": 3.0}, most=10.0))


def knowing(own, other):
    return scope(Items({"v": own}), LoadInformation("b", "items", other))


@pytest.mark.parametrize(
    ("action", "own", "other", "arriving", "refused"),
    [
        (COMES, 5.0, 9.0, 0.0, False),
        (COMES, 6.0, 9.0, 0.0, True),
        (COMES, 5.0, 9.0, 2.0, True),
        (GOES, 9.0, 5.0, 0.0, False),
        (GOES, 9.0, 6.0, 0.0, True),
    ],
)
def test_the_target_must_end_below_the_source(action, own, other, arriving, refused):
    assert objects(NeverAbove(), action, InFlight(0, {}, arriving), here=knowing(own, other)) is refused


def test_nothing_is_compared_with_an_unknown_load():
    assert not objects(NeverAbove(), COMES, model=Items({"v": 1e9}))
