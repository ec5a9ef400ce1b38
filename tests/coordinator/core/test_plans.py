"""Plans are made elsewhere while the network changes: migrations that are invalid by then are refused."""

from __future__ import annotations

import pytest
from coordinator_harness import CoordinatorHarness, lopsided

from tocsin.balancing.central_host import plan_for
from tocsin.balancing.decisions import Reason
from tocsin.coordinator.core import events as ev
from tocsin.errors import SystemFailure

POINTLESS = Reason.POINTLESS.value


def plan_requested() -> CoordinatorHarness:
    """A plan to migrate five of the ten subscribers of ``a`` to ``b`` is being made."""
    harness = lopsided(offloaded=True)
    harness.tick(1)
    assert len(harness.plan_requests) == 1 and harness.topology()["pending"] == 0
    return harness


def refused(harness: CoordinatorHarness) -> list[str]:
    return [note.text.partition(": ")[0] for note in harness.notes if note.kind == "refused"]


def accepted(harness: CoordinatorHarness) -> list[str]:
    return [note.subscriber for note in harness.notes if note.kind == "migration" and note.text.startswith("accepted")]


def test_a_finished_plan_is_carried_out():
    harness = plan_requested()
    harness.make_plan()
    assert harness.topology()["pending"] == 5 and len(accepted(harness)) == 5
    assert len(harness.report("a").migrations) == 5


def test_only_one_plan_is_requested_at_a_time():
    harness = plan_requested()
    harness.run(30, "a", "b")
    assert len(harness.plan_requests) == 1 and len(harness.samples) == 4
    harness.make_plan()
    harness.run(10, "a", "b")
    assert len(harness.plan_requests) == 1


def test_a_plan_request_is_a_snapshot_of_the_network():
    harness = plan_requested()
    harness.report("a", {f"subscriber-{number:04}": [] for number in range(10)}, rates={3: 0.0})
    harness.report("b", {"subscriber-new": [1, 2, 3]})
    request = harness.plan_requests[0].request
    assert request.load.rows.total == 10 and request.load.loads.F.tolist() == [2000.0, 0.0]


def test_a_subscriber_that_left_meanwhile_is_not_migrated():
    harness = plan_requested()
    harness.report("a", left=["subscriber-0000"])
    harness.make_plan()
    assert (
        refused(harness) == [POINTLESS] and "subscriber-0000" not in accepted(harness) and len(accepted(harness)) == 4
    )


def test_a_subscriber_that_took_a_freed_slot_is_not_migrated():
    harness = plan_requested()
    harness.report("a", {"another-one": [0]}, left=["subscriber-0000"])
    harness.make_plan()
    assert refused(harness) == [POINTLESS] and "another-one" not in accepted(harness)


def test_a_subscriber_that_changed_broker_meanwhile_is_not_migrated():
    harness = plan_requested()
    harness.place_and_report("b", {"subscriber-0000": [0]})
    harness.make_plan()
    assert Reason.ELSEWHERE.value in refused(harness) and "subscriber-0000" not in accepted(harness)


def test_migrations_to_a_broker_that_died_meanwhile_are_refused():
    harness = plan_requested()
    harness.handle(ev.Leave(0, "b", harness._tokens["b"]))
    harness.make_plan()
    assert accepted(harness) == [] and set(refused(harness)) == {Reason.GONE.value}


def test_migrations_to_a_broker_drained_meanwhile_are_refused():
    harness = plan_requested()
    harness.drain("b")
    harness.make_plan()
    assert accepted(harness) == [] and set(refused(harness)) == {Reason.DRAINING.value}


def test_migrations_to_a_broker_forgotten_meanwhile_are_refused():
    harness = plan_requested()
    harness.handle(ev.Leave(0, "b", harness._tokens["b"]))
    harness.handle(ev.Forget(0, "b"))
    harness.make_plan()
    assert accepted(harness) == [] and len(refused(harness)) == 5


def test_migrations_that_would_raise_the_maximum_by_now_are_refused():
    harness = plan_requested()
    harness.report("b", {f"other-{number:04}": [100 + number] for number in range(50)})
    harness.report("b", rates={100 + number: 100.0 for number in range(50)})
    harness.make_plan()
    assert accepted(harness) == [] and set(refused(harness)) == {Reason.RAISES.value}


def test_a_broker_undrained_meanwhile_keeps_its_subscribers():
    harness = CoordinatorHarness(offloaded=True, strategy="")
    harness.join("a", {"subscriber-0000": [1]}, rates={1: 1.0})
    harness.join("b")
    harness.drain("a")
    harness.tick(1)
    harness.drain("a", undo=True)
    harness.make_plan()
    assert refused(harness) == [POINTLESS] and accepted(harness) == []


def test_a_failed_plan_is_requested_again():
    harness = plan_requested()
    harness.handle(ev.PlanReady(harness.plan_requests.pop().number, None))
    harness.run(10, "a", "b")
    assert len(harness.plan_requests) == 1
    harness.make_plan()
    assert len(accepted(harness)) == 5


def test_a_plan_of_a_replaced_strategy_is_ignored():
    harness = plan_requested()
    harness.handle(ev.Reconfigure(0, strategy=""))
    harness.make_plan()
    assert accepted(harness) == []


def test_a_plan_of_replaced_components_is_ignored():
    harness = plan_requested()
    harness.handle(ev.Reconfigure(0, strategy="ldm", components={"detector": {"use": "cov", "alpha": 5.0}}))
    harness.make_plan()
    assert accepted(harness) == []


def test_a_plan_from_before_a_restart_is_ignored():
    harness = plan_requested()
    old = harness.plan_requests[0]
    harness.restart()
    harness.handle(ev.PlanReady(old.number, None))
    assert harness.topology()["pending"] == 0


def test_concurrent_queries_share_one_plan():
    harness = lopsided(offloaded=True)
    first, second = harness.handle(ev.ShowPlan("first")), harness.handle(ev.ShowPlan("second"))
    assert first is second is None and len(harness.plan_requests) == 1
    request = harness.plan_requests[0]
    replies = harness.state.handle(ev.PlanReady(request.number, plan_for(request.request)), harness.now)
    assert [each.call for each in replies] == ["first", "second"] and len(replies[0].body["migrations"]) == 5
    assert harness.topology()["pending"] == 0


def test_a_shown_plan_omits_subscribers_that_left_meanwhile():
    harness = lopsided(offloaded=True)
    harness.handle(ev.ShowPlan(0))
    harness.report("a", left=["subscriber-0000"])
    assert len(harness.make_plan()["migrations"]) == 4


def test_a_query_for_a_plan_that_fails_gets_the_error():
    harness = lopsided(offloaded=True)
    harness.handle(ev.ShowPlan(0))
    with pytest.raises(SystemFailure, match="could not be made"):
        harness.handle(ev.PlanReady(harness.plan_requests[0].number, None))
    harness.handle(ev.ShowPlan(0))
    assert len(harness.plan_requests) == 2
