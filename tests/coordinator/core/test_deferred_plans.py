"""A plan that only pays in the long run is held back, and everybody can see that, why, and what comes next."""

from __future__ import annotations

from coordinator_harness import CoordinatorHarness

RATES = {10 * group + k: 100.0 for group in range(2) for k in range(4)}


def mixed(odd: int = 1, **settings: object) -> CoordinatorHarness:
    """Two groups of people who want the same: of each, a third is at the broker where the other group is."""
    harness = CoordinatorHarness(**{"strategy": "peal", "balance_every": 10.0, **settings})
    for broker, here in sides(odd).items():
        harness.join(broker, here, rates=RATES)
    return harness


def sides(odd: int) -> dict[str, dict[str, list[int]]]:
    people: dict[str, dict[str, list[int]]] = {"a": {}, "b": {}}
    for n in range(24 + odd):
        group, strayed = n % 2, n // 2 % 3 == 0
        people["ab"[group ^ strayed]][f"subscriber-{n:04}"] = [10 * group + k for k in range(4)]
    return people


def look(harness: CoordinatorHarness, times: int = 1) -> None:
    for _ in range(times):
        harness.run(10, "a", "b")


def test_a_plan_shows_what_is_held_back_what_it_gains_and_when_it_is_judged_again():
    harness = mixed()
    plan = harness.plan()
    assert plan["migrations"] == [] and plan["deferred"]["state"] == "held back" and plan["deferred"]["migrations"] == 9
    assert plan["deferred"]["text"] == (
        "regrouping: 9 migrations, maximum 6,000 to 5,600, saves 800 and has to save 116; "
        "held back, has paid in 0 of 3 evaluations in a row"
    )
    look(harness)
    shown = harness.plan()["deferred"]
    assert "has paid in 1 of 3 evaluations" in shown["text"] and 0 < shown["next_evaluation"] <= 10


def test_the_log_says_once_that_it_waits_that_it_begins_and_that_it_rests():
    harness = mixed()
    look(harness, 2)
    (held,) = harness.notes_of("deferred")
    assert held.startswith("regrouping: 9 migrations") and held.endswith(
        "held back, has paid in 1 of 3 evaluations in a row"
    )
    look(harness, 2)
    assert harness.notes_of("deferred")[1].endswith("; up to 12 of them may be made now")
    assert len([note for note in harness.notes if note.kind == "migration" and note.text.startswith("accepted")]) == 9


def test_who_looks_while_it_rests_sees_for_how_long():
    harness = mixed(settings={"evaluations": 1.0, "rest": 100.0})
    gate = harness.state.balancer.gate
    look(harness)
    assert harness.plan()["deferred"]["state"] == "going on"
    gate.budget, gate.rest_until = 0, harness.now + 100.0
    shown = harness.plan()["deferred"]
    assert shown["state"] == "resting" and shown["next_evaluation"] == 100.0
    assert shown["text"].endswith("has to save 116; resting, evaluated again in 100 s")


def test_that_there_is_nothing_to_gain_is_in_the_plan_and_not_in_the_log():
    harness = CoordinatorHarness(strategy="peal", balance_every=10.0)
    harness.join("a", {"one": [1]}, rates={1: 5.0})
    harness.join("b", {"two": [2]}, rates={2: 5.0})
    look(harness)
    shown = harness.plan()["deferred"]
    assert shown["state"] == "nothing found" and shown["migrations"] == 0
    assert shown["text"].startswith("regrouping: the maximum is within 0.01 of the lower bound; nothing is held back")
    assert harness.notes_of("deferred") == []


def test_that_nobody_was_there_is_no_look_in_vain():
    harness = CoordinatorHarness(strategy="peal", balance_every=10.0, settings={"evaluations": 1.0})
    harness.join("a", {})
    harness.join("b", {})
    look(harness, 3)
    assert harness.plan()["deferred"] is None
    for broker, people in sides(1).items():
        harness.report(broker, people, rates=RATES)
    look(harness)
    assert harness.plan()["deferred"]["state"] == "going on"


def test_what_does_not_pay_any_more_is_told_of():
    harness = mixed()
    look(harness)
    harness.report("a", rates=dict.fromkeys(RATES, 0.0))
    harness.report("b", rates=dict.fromkeys(RATES, 0.0))
    look(harness)
    _, told = harness.notes_of("deferred")
    assert told.endswith("nothing is held back, evaluated again in 60 s")


def test_strategies_that_hold_nothing_back_have_nothing_to_show():
    harness = mixed(strategy="ldm")
    assert harness.plan()["deferred"] is None and harness.notes_of("deferred") == []


def test_a_plan_that_nobody_can_begin_is_given_up():
    """The brokers are even to the last byte: whoever goes first lifts one above the highest load of now."""
    harness = mixed(settings={"evaluations": 1.0}, odd=0)
    look(harness, 2)
    assert (
        "but no migration can be the first; nothing is held back" in harness.notes_of("deferred")[-1]
        and harness.notes_of("migration") == []
    )
