"""Plans that are made apart while the network goes on: what is not right any more when they come is left out."""

from __future__ import annotations

import pytest
from coordinator_harness import CoordinatorHarness, lopsided

from tocsin.balancing.balancer import plan_for
from tocsin.balancing.decisions import Reason
from tocsin.coordinator.core import events as ev
from tocsin.errors import SystemFailure

POINTLESS = Reason.POINTLESS.value


def asked() -> CoordinatorHarness:
    """A plan to move five of ``a``'s ten to ``b`` is being made."""
    harness = lopsided(offloaded=True)
    harness.tick(1)
    assert len(harness.plan_requests) == 1 and harness.topology()["pending"] == 0
    return harness


def refused(harness: CoordinatorHarness) -> list[str]:
    return [note.text.partition(": ")[0] for note in harness.notes if note.kind == "refused"]


def begun(harness: CoordinatorHarness) -> list[str]:
    return [note.subscriber for note in harness.notes if note.kind == "migration" and note.text.startswith("accepted")]


def test_the_plan_begins_when_it_comes():
    harness = asked()
    harness.make_plan()
    assert harness.topology()["pending"] == 5 and len(begun(harness)) == 5
    assert len(harness.report("a").migrations) == 5


def test_while_one_is_made_no_other_is_asked_for():
    harness = asked()
    harness.run(30, "a", "b")
    assert len(harness.plan_requests) == 1 and len(harness.samples) == 4
    harness.make_plan()
    harness.run(10, "a", "b")
    assert len(harness.plan_requests) == 1


def test_the_question_does_not_change_with_the_network():
    harness = asked()
    harness.report("a", {f"subscriber-{number:04}": [] for number in range(10)}, rates={3: 0.0})
    harness.report("b", {"somebody-new": [1, 2, 3]})
    question = harness.plan_requests[0].request
    assert question.load.rows.total == 10 and question.load.loads.F.tolist() == [2000.0, 0.0]


def test_who_has_left_is_not_moved():
    harness = asked()
    harness.report("a", left=["subscriber-0000"])
    harness.make_plan()
    assert refused(harness) == [POINTLESS] and "subscriber-0000" not in begun(harness) and len(begun(harness)) == 4


def test_who_came_instead_is_not_moved():
    harness = asked()
    harness.report("a", {"another-one": [0]}, left=["subscriber-0000"])
    harness.make_plan()
    assert refused(harness) == [POINTLESS] and "another-one" not in begun(harness)


def test_who_went_by_itself_is_not_moved():
    harness = asked()
    harness.place_and_report("b", {"subscriber-0000": [0]})
    harness.make_plan()
    assert Reason.ELSEWHERE.value in refused(harness) and "subscriber-0000" not in begun(harness)


def test_nobody_goes_to_a_broker_that_has_died_meanwhile():
    harness = asked()
    harness.handle(ev.Leave(0, "b", harness._tokens["b"]))
    harness.make_plan()
    assert begun(harness) == [] and set(refused(harness)) == {Reason.GONE.value}


def test_nobody_goes_to_a_broker_that_is_drained_meanwhile():
    harness = asked()
    harness.drain("b")
    harness.make_plan()
    assert begun(harness) == [] and set(refused(harness)) == {Reason.DRAINING.value}


def test_nobody_goes_to_a_broker_that_is_forgotten_meanwhile():
    harness = asked()
    harness.handle(ev.Leave(0, "b", harness._tokens["b"]))
    harness.handle(ev.Forget(0, "b"))
    harness.make_plan()
    assert begun(harness) == [] and len(refused(harness)) == 5


def test_moves_are_not_made_if_the_load_has_turned():
    harness = asked()
    harness.report("b", {f"other-{number:04}": [100 + number] for number in range(50)})
    harness.report("b", rates={100 + number: 100.0 for number in range(50)})
    harness.make_plan()
    assert begun(harness) == [] and set(refused(harness)) == {Reason.RAISES.value}


def test_a_broker_that_is_undrained_meanwhile_keeps_its_people():
    harness = CoordinatorHarness(offloaded=True, strategy="")
    harness.join("a", {"subscriber-0000": [1]}, rates={1: 1.0})
    harness.join("b")
    harness.drain("a")
    harness.tick(1)
    harness.drain("a", undo=True)
    harness.make_plan()
    assert refused(harness) == [POINTLESS] and begun(harness) == []


def test_a_plan_that_could_not_be_made_is_asked_for_again():
    harness = asked()
    harness.handle(ev.PlanReady(harness.plan_requests.pop().number, None))
    harness.run(10, "a", "b")
    assert len(harness.plan_requests) == 1
    harness.make_plan()
    assert len(begun(harness)) == 5


def test_a_plan_of_a_strategy_that_was_changed_meanwhile_is_nobodys():
    harness = asked()
    harness.handle(ev.Reconfigure(0, strategy=""))
    harness.make_plan()
    assert begun(harness) == []


def test_a_plan_of_before_a_restart_is_nobodys():
    harness = asked()
    old = harness.plan_requests[0]
    harness.restart()
    harness.handle(ev.PlanReady(old.number, None))
    assert harness.topology()["pending"] == 0


def test_all_who_look_meanwhile_get_the_same_answer():
    harness = lopsided(offloaded=True)
    first, second = harness.handle(ev.ShowPlan("first")), harness.handle(ev.ShowPlan("second"))
    assert first is second is None and len(harness.plan_requests) == 1
    ponder = harness.plan_requests[0]
    replies = harness.state.handle(ev.PlanReady(ponder.number, plan_for(ponder.request)), harness.now)
    assert [each.call for each in replies] == ["first", "second"] and len(replies[0].body["migrations"]) == 5
    assert harness.topology()["pending"] == 0


def test_what_is_looked_at_leaves_out_who_has_left():
    harness = lopsided(offloaded=True)
    harness.handle(ev.ShowPlan(0))
    harness.report("a", left=["subscriber-0000"])
    assert len(harness.make_plan()["migrations"]) == 4


def test_who_looks_is_told_of_trouble():
    harness = lopsided(offloaded=True)
    harness.handle(ev.ShowPlan(0))
    with pytest.raises(SystemFailure, match="could not be made"):
        harness.handle(ev.PlanReady(harness.plan_requests[0].number, None))
    harness.handle(ev.ShowPlan(0))
    assert len(harness.plan_requests) == 2
