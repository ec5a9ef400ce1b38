"""T34 to T37: local sessions, migration, and how each ends."""

from __future__ import annotations

import pytest
from brokers_at_rest import Network, StatedBroker

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices
from tocsin.balancing.strategies.cheung2006.detection.pie import Pie
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.mediation import events as ev
from tocsin.balancing.strategies.cheung2006.mediation import messages as ms
from tocsin.balancing.strategies.cheung2006.mediation import outputs as out
from tocsin.balancing.strategies.cheung2006.mediation.sessions import Accepting, Migrating, Requesting, Sampling
from tocsin.balancing.strategies.cheung2006.offload.covering import Covering


def network(**more) -> Network:
    """B1 has 24 of 26 subscriptions: an input ratio of 0.576."""
    return Network([StatedBroker("B1", range(24)), StatedBroker("B2", [24, 25])], **more)


def started() -> Network:
    """B1 has learned of B2, and samples."""
    found = network()
    found.now = 1.0
    found.post("B1", ev.Received("B2", Pie("B2", "C", Status.OK, Indices(0.0, 0.0, 0.0))))
    assert isinstance(found.edge("B1").session, Sampling)
    return found


def test_two_brokers_balance_and_every_subscriber_is_at_one_of_them():
    found = network()
    everyone = sorted(found.brokers["B1"].names() + found.brokers["B2"].names())
    found.run(400.0)
    ours, theirs = found.brokers["B1"], found.brokers["B2"]
    assert sorted(ours.names() + theirs.names()) == everyone
    assert abs(ours.indices().input - theirs.indices().input) <= 0.1
    assert {found.edge(name).status for name in ("B1", "B2")} == {Status.OK}
    assert len([each for each in found.of(out.Selected) if each.subscribers]) <= 2


def test_both_are_busy_during_a_session_and_stabilize_after_it():
    found = started()
    assert found.edge("B1").status is found.edge("B2").status is Status.BUSY
    assert isinstance(found.edge("B2").session, Accepting)
    found.run(1.0)
    assert found.edge("B1").status is found.edge("B2").status is Status.STABILIZING
    assert found.edge("B1").session is found.edge("B2").session is None


def test_the_reply_has_eleven_fields():
    found = started()
    ((_, reply),) = found.messages(ms.Reply)
    assert reply.css == ("24", "25") and reply.status is Status.OK
    fields = [each for each in reply.resources.__struct_fields__ if each != "engine_slope"]
    assert len(fields) + 1 == 11


def test_orders_name_the_session_and_how_many_migrate():
    found = started()
    found.run(1.0)
    orders = found.of(out.Order)
    assert {each.total for each in orders} == {len(orders)} and len({each.session for each in orders}) == 1
    ((_, done),) = found.messages(ms.Done)
    assert sorted(done.arrived) == sorted(each.subscriber for each in orders)


def test_migrated_subscribers_stay_until_the_queues_are_delivered():
    found = started()
    found.run(1.0)
    (release,) = found.of(out.Release)
    assert release.seconds == 3.0 and len(release.subscribers) == len(found.of(out.Order))


@pytest.mark.parametrize("status", [Status.BUSY, Status.STABILIZING, Status.UNAVAILABLE])
def test_a_broker_that_is_not_ok_declines(status):
    found = network()
    state = found.edge("B2").detector.state
    for each in {Status.STABILIZING: [Status.BUSY]}.get(status, []):
        state.change(each, 0.0)
    state.change(status, 0.0)
    found.post("B2", ev.Received("B1", ms.Request("B1/0/1")))
    assert found.messages(ms.Reply) == [("B2", ms.Reply("B1/0/1", status))]


def test_the_next_of_the_list_is_asked():
    found = Network([StatedBroker("B1", range(24)), StatedBroker("B2", [24]), StatedBroker("B3", [25])])
    found.edge("B2").detector.state.change(Status.BUSY, 0.0)
    for name in ("B2", "B3"):
        load = Indices(0.0, 0.0, 0.0) if name == "B2" else Indices(0.1, 0.0, 0.0)
        found.edge("B1").known.register(Pie(name, "C", Status.OK, load), 0.0)
    found.now = 50.0
    found.post("B1", ev.Tick())
    session = found.edge("B1").session
    assert isinstance(session, Sampling) and session.partner == "B3"


def test_an_overloaded_broker_that_all_decline_asks_its_head():
    found = Network([StatedBroker("B1", range(35)), StatedBroker("B2", [36])])
    found.edge("B2").detector.state.change(Status.BUSY, 0.0)
    found.edge("B1").known.register(Pie("B2", "C", Status.OK, Indices()), 0.0)
    found.now = 50.0
    found.post("B1", ev.Tick())
    assert len(found.messages(ms.GlobalRequest)) == 1 and found.edge("B1").session is None


def test_no_reply_in_time_ends_the_request():
    found = network()
    found.lost.add("B2")
    found.now = 1.0
    found.post("B1", ev.Received("B2", Pie("B2", "C", Status.OK, Indices())))
    assert isinstance(found.edge("B1").session, Requesting)
    found.now = 12.0
    found.post("B1", ev.Tick())
    assert not isinstance(found.edge("B1").session, Sampling)
    assert found.edge("B1").status is Status.OK


def test_an_acceptor_without_subscribers_ends_in_time():
    found = network()
    found.lost.add("B1")
    found.post("B2", ev.Received("B1", ms.Request("B1/0/1")))
    assert found.edge("B2").status is Status.BUSY
    found.now = 51.0
    found.post("B2", ev.Tick())
    assert found.edge("B2").session is None and found.edge("B2").status is Status.OK


def test_a_session_in_which_nothing_moves_leaves_both_as_they_were():
    """No subscription is there that could migrate."""
    found = network()
    for each in found.brokers.values():
        each.held = {0: [f"{each.name}-{number}" for number in range(20)]} if each.name == "B1" else {0: ["B2-0"]}
        each.covering = lambda: Covering({0: 0})
        each.subscribers = dict
    found.now = 1.0
    found.post("B1", ev.Received("B2", Pie("B2", "C", Status.OK, Indices())))
    found.run(1.0)
    (selected,) = found.of(out.Selected)
    assert selected.subscribers == 0 and found.messages(ms.Done) == [("B1", ms.Done(selected.session))]
    assert found.edge("B1").status is found.edge("B2").status is Status.OK


def test_a_subscriber_that_never_arrives_delays_done_and_is_not_released():
    found = started()
    found.held_back = {"B1-0", "B1-1"}
    found.run(1.0)
    session = found.edge("B1").session
    moved = {each.subscriber for each in found.of(out.Order)}
    late = moved & found.held_back
    assert isinstance(session, Migrating) and late and moved - late
    found.run(10.0 * len(moved) + 2.0)
    release = found.of(out.Release)[0]
    assert set(release.subscribers) == moved - late
    assert late <= set(found.brokers["B1"].names())


@pytest.mark.parametrize("side", ["B1", "B2"])
def test_a_partner_that_dies_ends_the_session(side):
    found = started()
    other = {"B1": "B2", "B2": "B1"}[side]
    found.post(side, ev.PeerLost(other))
    assert found.edge(side).session is None and found.edge(side).status is Status.STABILIZING
    assert other not in found.edge(side).known


def test_a_partner_that_dies_during_migration_loses_no_subscriber():
    found = started()
    found.held_back = {f"B1-{number}" for number in range(24)}
    found.run(1.0)
    assert isinstance(found.edge("B1").session, Migrating)
    found.post("B1", ev.PeerLost("B2"))
    assert found.edge("B1").session is None and found.of(out.Release) == []
    assert len(found.brokers["B1"].names()) == 24


def test_messages_of_others_change_nothing():
    found = started()
    before = found.edge("B1").session
    for message in (ms.Done("B1/0/1"), ms.Reply("B1/0/1", Status.OK), ms.Reply("B1/0/9", Status.BUSY)):
        found.post("B1", ev.Received("B7", message))
    found.post("B2", ev.Arrived("x", "another", 1))
    found.post("B2", ev.Arrived("x", "B1/0/1", 0))
    found.post("B2", ev.Received("B7", ms.Request("B1/0/5")))
    assert found.edge("B1").session is before and isinstance(found.edge("B2").session, Accepting)


def test_a_late_ok_releases_the_partner():
    found = network()
    found.post("B1", ev.Received("B2", ms.Reply("B1/0/1", Status.OK)))
    assert found.messages(ms.Done) == [("B1", ms.Done("B1/0/1"))]


def test_its_head_has_it_watch_another_cluster():
    found = network()
    found.post("B1", ev.Received("B0", ms.Join("B0/0/1", "D")))
    found.edge("B1").known.register(Pie("B9", "D", Status.BUSY, Indices()), 0.0)
    found.post("B1", ev.Received("B0", ms.Leave("B0/0/1", "D")))
    found.post("B1", ev.Received("B7", ms.Join("B7/0/1", "E")))
    assert found.of(out.Watch) == [out.Watch("D", True), out.Watch("D", False)]
    assert "B9" not in found.edge("B1").known


def test_control_messages_are_addressed_by_content():
    assert ms.control_subscription("B1") == "[class,eq,'LB_CONTROL'],[brokerID,eq,'B1']"
    assert ms.pie_subscription("C1") == "[class,eq,'LOCAL_PIE'],[clusterID,eq,'C1']"


def test_a_global_pie_is_no_partner():
    found = network()
    found.post("B1", ev.Received("B0", Pie("B20", "B20", Status.OK, Indices(), whole=True)))
    assert len(found.edge("B1").known) == 0 and found.edge("B1").session is None
