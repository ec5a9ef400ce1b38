"""The load model of an edge, and the handover of its bundles."""

from __future__ import annotations

import pytest
from edge_scope import model
from edge_tables import B0, B1, filled, overloaded, use

from tocsin.balancing.host.actions import Migrate
from tocsin.balancing.host.load_model import Handover, Member
from tocsin.balancing.strategies.tao2013.metrics import DOWNLINK, MATCHING, QUEUE, UPLINK, LoadTable, Origin, Role
from tocsin.balancing.strategies.tao2013.topic_load import TopicLoad, parts_of

MOVE = Migrate("b1", "b0", 0.0, "", ("1",))


def test_it_measures_and_lists_bundles_the_heaviest_first():
    load = model(overloaded())
    assert load.criteria == (QUEUE, DOWNLINK, MATCHING, UPLINK)
    assert load.measure(UPLINK) == pytest.approx(1.07)
    assert [unit for unit, _ in load.units(UPLINK)] == ["8", "3", "14", "1"]
    assert load.capacity(UPLINK) == 1.0 and load.capacity(QUEUE) == float("inf")


def test_it_holds_bundles_and_single_clients():
    load = model(overloaded())
    assert load.holds("8") and load.holds("8/6") and not load.holds("8/7") and not load.holds("9")


def test_rates_are_smoothed_as_configured():
    load = TopicLoad("b1", B1, smoothing=0.75)
    load.observe([use("1", 100, 1, 200)])
    assert load.table.uses["1"].rate == 100  # nothing was there before
    load.observe([use("1", 200, 1, 200, waiting=5)])
    assert load.table.uses["1"].rate == pytest.approx(175) and load.table.uses["1"].waiting == 5
    load.observe([])
    assert not load.table.uses


def test_a_what_if_changes_nothing_else():
    load = model(overloaded())
    trial = load.what_if()
    trial.apply(MOVE)
    trial.apply(Migrate("b2", "b1", 0.25, "", ("7",)))
    assert trial.measure(UPLINK) == pytest.approx(0.99 + 0.25) and load.measure(UPLINK) == pytest.approx(1.07)


def test_the_target_estimates_what_a_bundle_brings():
    source, target = model(overloaded()), model(LoadTable(B0, Role.EDGE), "b0")
    assert isinstance(source, Handover)
    members = source.members(MOVE)
    assert [each.name for each in members] == [f"1/{number}" for number in range(8)]
    assert target.refuses(MOVE, members) is None
    assert target.appraised(UPLINK, MOVE, members).load == pytest.approx(0.64 / 6.5)
    assert target.appraised(DOWNLINK, MOVE, members).load == pytest.approx(0.08 / 6.5)
    assert target.admit(MOVE, members) == {}


def test_the_target_refuses_what_would_overload_it():
    members = model(overloaded()).members(Migrate("b1", "b0", 0.0, "", ("8",)))
    assert "uplink would be" in str(model(filled(B0, 4.0), "b0").refuses(MOVE, members))
    assert model(filled(B0, 6.0), "b0").refuses(MOVE, members) == "its status is high"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ((), "no client would come"),
        ((Member("1/0"),), "without a rate"),
        ((Member("1/0", ((0, -1.0), (1, 200.0), (2, 1.0))),), "without a rate"),
        ((Member("1/0", ((0, 1.0), (1, 0.0), (2, 1.0))),), "without a rate"),
        ((Member("1/0", ((0, float("nan")), (1, 200.0), (2, 1.0))),), "without a rate"),
        ((Member("1/0", ((0, 1.0), (1, 200.0), (2, 1.0), (4, 17.0))),), "without a rate"),
        ((Member("99/0", parts_of(use("99", 1, 1, 100))),), "is here already"),
    ],
)
def test_members_that_cannot_be(members, reason):
    assert reason in str(model(filled(B0, 1.0), "b0").refuses(MOVE, members))


def test_a_member_keeps_the_origin_of_its_topic():
    table = LoadTable.of(B1, Role.EDGE, [use("1", 10, 1, 100)])
    assert table.uses["1"].origin is Origin.LOCAL
    (member,) = model(table).members(MOVE)
    assert dict(member.parts)[4] == list(Origin).index(Origin.LOCAL)
