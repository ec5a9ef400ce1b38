"""Plans that are made apart while the network goes on: what is not right any more when they come is left out."""

from __future__ import annotations

import pytest
from office import Office, lopsided

from tocsin.balancing.balancer import answer
from tocsin.balancing.decisions import Reason
from tocsin.coordinator.core import events as ev
from tocsin.errors import SystemTrouble

POINTLESS = Reason.POINTLESS.value


def asked() -> Office:
    """A plan to move five of ``a``'s ten to ``b`` is being made."""
    office = lopsided(apart=True)
    office.tick(1)
    assert len(office.questions) == 1 and office.topology()["pending"] == 0
    return office


def refused(office: Office) -> list[str]:
    return [note.text.partition(": ")[0] for note in office.notes if note.kind == "refused"]


def begun(office: Office) -> list[str]:
    return [note.subscriber for note in office.notes if note.kind == "move" and note.text.startswith("accepted")]


def test_the_plan_begins_when_it_comes():
    office = asked()
    office.ponder()
    assert office.topology()["pending"] == 5 and len(begun(office)) == 5
    assert len(office.report("a").moves) == 5


def test_while_one_is_made_no_other_is_asked_for():
    office = asked()
    office.alive(30, "a", "b")
    assert len(office.questions) == 1 and len(office.samples) == 4
    office.ponder()
    office.alive(10, "a", "b")
    assert len(office.questions) == 1


def test_the_question_does_not_change_with_the_network():
    office = asked()
    office.report("a", {f"subscriber-{number:04}": [] for number in range(10)}, rates={3: 0.0})
    office.report("b", {"somebody-new": [1, 2, 3]})
    question = office.questions[0].question
    assert question.load.rows.total == 10 and question.load.loads.F.tolist() == [2000.0, 0.0]


def test_who_has_left_is_not_moved():
    office = asked()
    office.report("a", left=["subscriber-0000"])
    office.ponder()
    assert refused(office) == [POINTLESS] and "subscriber-0000" not in begun(office) and len(begun(office)) == 4


def test_who_came_instead_is_not_moved():
    office = asked()
    office.report("a", {"another-one": [0]}, left=["subscriber-0000"])
    office.ponder()
    assert refused(office) == [POINTLESS] and "another-one" not in begun(office)


def test_who_went_by_itself_is_not_moved():
    office = asked()
    office.welcome("b", {"subscriber-0000": [0]})
    office.ponder()
    assert Reason.ELSEWHERE.value in refused(office) and "subscriber-0000" not in begun(office)


def test_nobody_goes_to_a_broker_that_has_died_meanwhile():
    office = asked()
    office.tell(ev.Leave(0, "b", office._tokens["b"]))
    office.ponder()
    assert begun(office) == [] and set(refused(office)) == {Reason.GONE.value}


def test_nobody_goes_to_a_broker_that_is_drained_meanwhile():
    office = asked()
    office.drain("b")
    office.ponder()
    assert begun(office) == [] and set(refused(office)) == {Reason.DRAINING.value}


def test_nobody_goes_to_a_broker_that_is_forgotten_meanwhile():
    office = asked()
    office.tell(ev.Leave(0, "b", office._tokens["b"]))
    office.tell(ev.Forget(0, "b"))
    office.ponder()
    assert begun(office) == [] and len(refused(office)) == 5


def test_moves_are_not_made_if_the_load_has_turned():
    office = asked()
    office.report("b", {f"other-{number:04}": [100 + number] for number in range(50)})
    office.report("b", rates={100 + number: 100.0 for number in range(50)})
    office.ponder()
    assert begun(office) == [] and set(refused(office)) == {Reason.RAISES.value}


def test_a_broker_that_is_undrained_meanwhile_keeps_its_people():
    office = Office(apart=True, strategy="")
    office.join("a", {"subscriber-0000": [1]}, rates={1: 1.0})
    office.join("b")
    office.drain("a")
    office.tick(1)
    office.drain("a", undo=True)
    office.ponder()
    assert refused(office) == [POINTLESS] and begun(office) == []


def test_a_plan_that_could_not_be_made_is_asked_for_again():
    office = asked()
    office.tell(ev.PlanReady(office.questions.pop().number, None))
    office.alive(10, "a", "b")
    assert len(office.questions) == 1
    office.ponder()
    assert len(begun(office)) == 5


def test_a_plan_of_a_strategy_that_was_changed_meanwhile_is_nobodys():
    office = asked()
    office.tell(ev.Switch(0, strategy=""))
    office.ponder()
    assert begun(office) == []


def test_a_plan_of_before_a_restart_is_nobodys():
    office = asked()
    old = office.questions[0]
    office.restart()
    office.tell(ev.PlanReady(old.number, None))
    assert office.topology()["pending"] == 0


def test_all_who_look_meanwhile_get_the_same_answer():
    office = lopsided(apart=True)
    first, second = office.tell(ev.Plan("first")), office.tell(ev.Plan("second"))
    assert first is second is None and len(office.questions) == 1
    ponder = office.questions[0]
    replies = office.state.handle(ev.PlanReady(ponder.number, answer(ponder.question)), office.now)
    assert [each.call for each in replies] == ["first", "second"] and len(replies[0].body["moves"]) == 5
    assert office.topology()["pending"] == 0


def test_what_is_looked_at_leaves_out_who_has_left():
    office = lopsided(apart=True)
    office.tell(ev.Plan(0))
    office.report("a", left=["subscriber-0000"])
    assert len(office.ponder()["moves"]) == 4


def test_who_looks_is_told_of_trouble():
    office = lopsided(apart=True)
    office.tell(ev.Plan(0))
    with pytest.raises(SystemTrouble, match="could not be made"):
        office.tell(ev.PlanReady(office.questions[0].number, None))
    office.tell(ev.Plan(0))
    assert len(office.questions) == 2
