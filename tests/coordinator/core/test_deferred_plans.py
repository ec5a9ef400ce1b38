"""A plan that only pays in the long run is deferred; the log and the shown plan say why and for how long."""

from __future__ import annotations

from coordinator_harness import CoordinatorHarness

RATES = {10 * group + k: 100.0 for group in range(2) for k in range(4)}


def mixed(odd: int = 1, **settings: object) -> CoordinatorHarness:
    """Two groups with the same subscriptions; a third of each group is at the broker of the other."""
    harness = CoordinatorHarness(**{"strategy": "peal", "balance_every": 10.0, **settings})
    for broker, here in sides(odd).items():
        harness.join(broker, here, rates=RATES)
    return harness


def sides(odd: int) -> dict[str, dict[str, list[int]]]:
    subscribers: dict[str, dict[str, list[int]]] = {"a": {}, "b": {}}
    for n in range(24 + odd):
        group, strayed = n % 2, n // 2 % 3 == 0
        subscribers["ab"[group ^ strayed]][f"subscriber-{n:04}"] = [10 * group + k for k in range(4)]
    return subscribers


def evaluate(harness: CoordinatorHarness, times: int = 1) -> None:
    for _ in range(times):
        harness.run(10, "a", "b")


def test_a_plan_shows_the_deferred_migrations_their_gain_and_the_next_evaluation():
    harness = mixed()
    plan = harness.plan()
    assert plan["migrations"] == [] and plan["deferred"]["state"] == "held back" and plan["deferred"]["migrations"] == 9
    assert plan["deferred"]["text"] == (
        "regrouping: 9 migrations, maximum 6,000 to 5,600, saves 800 and has to save 116; "
        "held back, has paid in 0 of 3 evaluations in a row"
    )
    evaluate(harness)
    shown = harness.plan()["deferred"]
    assert "has paid in 1 of 3 evaluations" in shown["text"] and 0 < shown["next_evaluation"] <= 10


def test_each_phase_of_a_deferred_plan_is_logged_once():
    harness = mixed()
    evaluate(harness, 2)
    (held,) = harness.notes_of("deferred")
    assert held.startswith("regrouping: 9 migrations") and held.endswith(
        "held back, has paid in 1 of 3 evaluations in a row"
    )
    evaluate(harness, 2)
    assert harness.notes_of("deferred")[1].endswith("; up to 12 of them may be made now")
    assert len([note for note in harness.notes if note.kind == "migration" and note.text.startswith("accepted")]) == 9


def test_a_plan_shows_how_long_the_gate_still_rests():
    harness = mixed(settings={"evaluations": 1.0, "rest": 100.0})
    gate = harness.state.host.manager.concerns[-1].balancer.gate
    evaluate(harness)
    assert harness.plan()["deferred"]["state"] == "going on"
    gate.budget, gate.rest_until = 0, harness.now + 100.0
    shown = harness.plan()["deferred"]
    assert shown["state"] == "resting" and shown["next_evaluation"] == 100.0
    assert shown["text"].endswith("has to save 116; resting, evaluated again in 100 s")


def test_a_plan_without_gain_is_shown_and_not_logged():
    harness = CoordinatorHarness(strategy="peal", balance_every=10.0)
    harness.join("a", {"one": [1]}, rates={1: 5.0})
    harness.join("b", {"two": [2]}, rates={2: 5.0})
    evaluate(harness)
    shown = harness.plan()["deferred"]
    assert shown["state"] == "nothing found" and shown["migrations"] == 0
    assert shown["text"].startswith("regrouping: the maximum is within 0.01 of the lower bound; nothing is held back")
    assert harness.notes_of("deferred") == []


def test_an_evaluation_without_subscribers_is_not_counted_as_fruitless():
    harness = CoordinatorHarness(strategy="peal", balance_every=10.0, settings={"evaluations": 1.0})
    harness.join("a", {})
    harness.join("b", {})
    evaluate(harness, 3)
    assert harness.plan()["deferred"] is None
    for broker, subscribers in sides(1).items():
        harness.report(broker, subscribers, rates=RATES)
    evaluate(harness)
    assert harness.plan()["deferred"]["state"] == "going on"


def test_a_deferred_plan_that_pays_no_longer_is_logged():
    harness = mixed()
    evaluate(harness)
    harness.report("a", rates=dict.fromkeys(RATES, 0.0))
    harness.report("b", rates=dict.fromkeys(RATES, 0.0))
    evaluate(harness)
    _, note = harness.notes_of("deferred")
    assert note.endswith("nothing is held back, evaluated again in 60 s")


def test_strategies_that_defer_nothing_show_no_deferred_plan():
    harness = mixed(strategy="ldm")
    assert harness.plan()["deferred"] is None and harness.notes_of("deferred") == []


def test_a_plan_without_a_feasible_first_migration_is_dropped():
    """The loads are exactly equal: the first migration would lift its target above the highest load."""
    harness = mixed(settings={"evaluations": 1.0}, odd=0)
    evaluate(harness, 2)
    assert (
        "but no migration can be the first; nothing is held back" in harness.notes_of("deferred")[-1]
        and harness.notes_of("migration") == []
    )
