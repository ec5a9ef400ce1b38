"""A plan that only pays in the long run is held back, and everybody can see that, why, and what comes next."""

from __future__ import annotations

from office import Office

RATES = {10 * group + k: 100.0 for group in range(2) for k in range(4)}


def mixed(odd: int = 1, **settings: object) -> Office:
    """Two groups of people who want the same: of each, a third is at the broker where the other group is."""
    office = Office(**{"strategy": "peal", "balance_every": 10.0, **settings})
    for broker, here in sides(odd).items():
        office.join(broker, here, rates=RATES)
    return office


def sides(odd: int) -> dict[str, dict[str, list[int]]]:
    people: dict[str, dict[str, list[int]]] = {"a": {}, "b": {}}
    for n in range(24 + odd):
        group, strayed = n % 2, n // 2 % 3 == 0
        people["ab"[group ^ strayed]][f"subscriber-{n:04}"] = [10 * group + k for k in range(4)]
    return people


def look(office: Office, times: int = 1) -> None:
    for _ in range(times):
        office.alive(10, "a", "b")


def test_a_plan_shows_what_is_held_back_what_it_gains_and_when_it_is_judged_again():
    office = mixed()
    plan = office.plan()
    assert plan["moves"] == [] and plan["held"]["state"] == "held back" and plan["held"]["moves"] == 9
    assert plan["held"]["text"] == (
        "regrouping: 9 moves, maximum 6,000 to 5,600, saves 800 and has to save 116; "
        "held back, has paid at 0 of 3 looks in a row"
    )
    look(office)
    shown = office.plan()["held"]
    assert "has paid at 1 of 3 looks" in shown["text"] and 0 < shown["judged_in"] <= 10


def test_the_log_says_once_that_it_waits_that_it_begins_and_that_it_rests():
    office = mixed()
    look(office, 2)
    (held,) = office.said("held")
    assert held.startswith("regrouping: 9 moves") and held.endswith("held back, has paid at 1 of 3 looks in a row")
    look(office, 2)
    assert office.said("held")[1].endswith("; up to 12 of them may be made now")
    assert len([note for note in office.notes if note.kind == "move" and note.text.startswith("accepted")]) == 9


def test_who_looks_while_it_rests_sees_for_how_long():
    office = mixed(settings={"looks": 1.0, "pause": 100.0})
    patience = office.state.balancer.patience
    look(office)
    assert office.plan()["held"]["state"] == "going on"
    patience.budget, patience.until = 0, office.now + 100.0
    shown = office.plan()["held"]
    assert shown["state"] == "resting" and shown["judged_in"] == 100.0
    assert shown["text"].endswith("has to save 116; that is enough for now, judged again in 100 s")


def test_that_there_is_nothing_to_gain_is_in_the_plan_and_not_in_the_log():
    office = Office(strategy="peal", balance_every=10.0)
    office.join("a", {"one": [1]}, rates={1: 5.0})
    office.join("b", {"two": [2]}, rates={2: 5.0})
    look(office)
    shown = office.plan()["held"]
    assert shown["state"] == "in vain" and shown["moves"] == 0
    assert shown["text"].startswith("regrouping: the maximum is within 0.01 of the lower bound; nothing is held back")
    assert office.said("held") == []


def test_that_nobody_was_there_is_no_look_in_vain():
    office = Office(strategy="peal", balance_every=10.0, settings={"looks": 1.0})
    office.join("a", {})
    office.join("b", {})
    look(office, 3)
    assert office.plan()["held"] is None
    for broker, people in sides(1).items():
        office.report(broker, people, rates=RATES)
    look(office)
    assert office.plan()["held"]["state"] == "going on"


def test_what_does_not_pay_any_more_is_told_of():
    office = mixed()
    look(office)
    office.report("a", rates=dict.fromkeys(RATES, 0.0))
    office.report("b", rates=dict.fromkeys(RATES, 0.0))
    look(office)
    _, told = office.said("held")
    assert told.endswith("nothing is held back, judged again in 60 s")


def test_strategies_that_hold_nothing_back_have_nothing_to_show():
    office = mixed(strategy="ldm")
    assert office.plan()["held"] is None and office.said("held") == []


def test_a_plan_that_nobody_can_begin_is_given_up():
    """The brokers are even to the last byte: whoever goes first lifts one above the highest load of now."""
    office = mixed(settings={"looks": 1.0}, odd=0)
    look(office, 2)
    assert "but nobody can go first; nothing is held back" in office.said("held")[-1] and office.said("move") == []
