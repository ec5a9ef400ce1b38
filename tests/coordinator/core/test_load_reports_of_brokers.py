"""The model follows the reports: late, lost, repeated, and of two brokers at once."""

from __future__ import annotations

import pytest
from coordinator_harness import CoordinatorHarness

from tocsin.coordinator.core.network_model import IDLE, OVERLAP, UNEXPECTED
from tocsin.errors import Unauthorized


def test_a_report_adds_and_takes_away():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1], "two": [2]})
    harness.report("a", {"three": [1, 2], "one": [5]}, left=["two"])
    assert [harness.at(name) for name in ("one", "two", "three")] == ["a", None, "a"]
    assert harness.has("one") == [5] and harness.has("three") == [1, 2]


def test_a_full_report_says_all():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1], "two": [2]})
    harness.report("a", {"two": [2]}, full=True)
    assert harness.at("one") is None and harness.at("two") == "a"


def test_a_subscriber_without_subscriptions_is_there_too():
    harness = CoordinatorHarness()
    harness.join("a", {"one": []})
    assert harness.at("one") == "a" and harness.topology()["subscribers"] == 1


def test_the_load_is_that_of_the_papers():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2], "two": [1]}, rates={1: 10.0, 2: 1.0})
    (row,) = harness.topology()["brokers"]
    assert (row["load_in"], row["load_out"]) == (11.0, 21.0)


@pytest.mark.parametrize("later", [0.5, 12.0])
def test_a_broker_that_has_only_begun_to_count_does_not_change_a_rate(later):
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]}, rates={1: 10.0})
    harness.join("b", {"two": [1]}, rates={1: later})
    assert _rate(harness, 1) == 10.0
    harness.report("b", rates={1: later})
    assert _rate(harness, 1) == 10.0
    harness.report("a", rates={1: 11.0})
    assert _rate(harness, 1) == 11.0


def test_the_rate_of_a_broker_that_serves_nobody_with_it_any_more_does_not_stand():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]}, rates={1: 10.0})
    harness.join("b", {"two": [1]}, rates={1: 0.5})
    harness.report("a", left=["one"])
    harness.report("b", rates={1: 0.5})
    assert _rate(harness, 1) == 0.5


def test_a_group_that_moves_weighs_what_it_weighed():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]}, rates={1: 10.0})
    harness.place_and_report("b", {"one": [1]})
    harness.report("a", left=["one"])
    for told in (0.0, 4.0, 9.0):
        harness.report("b", rates={1: told}, fresh=[1])
        assert _rate(harness, 1) == 10.0
    harness.report("b", rates={1: 11.0}, fresh=[1])
    assert _rate(harness, 1) == 11.0
    harness.report("b", rates={1: 8.0})
    assert _rate(harness, 1) == 8.0


def _rate(harness: CoordinatorHarness, back: int) -> float:
    model = harness.state.model
    return float(model.load.lam[model.subscriptions.number(back)])


def test_rates_change():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]}, rates={1: 10.0})
    harness.report("a", rates={1: 7.0})
    assert harness.topology()["brokers"][0]["load_out"] == 7.0


def test_the_first_report_has_to_be_full():
    harness = CoordinatorHarness()
    harness.register("a")
    assert harness.report("a", {"one": [1]}).full
    assert harness.at("one") is None


def test_after_a_lost_report_everything_is_asked_for():
    harness = CoordinatorHarness()
    harness.join("a")
    assert harness.report("a", {"one": [1]}, number=3).full
    assert harness.report("a", {"one": [1]}, number=4).full
    assert not harness.report("a", {"one": [1], "two": [2]}, number=5, full=True).full
    assert harness.at("two") == "a"


def test_a_repeated_report_changes_nothing():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.report("a", left=["one"])
    assert harness.report("a", {"one": [1]}, number=1, full=True).migrations == []
    assert harness.at("one") is None
    assert not harness.report("a", {"two": [1]}, number=3).full


def test_a_report_from_before_a_registration_is_refused():
    harness = CoordinatorHarness()
    old = harness.register("a").token
    harness.report("a", {"one": [1]}, full=True)
    harness.join("a", {"two": [2]})
    with pytest.raises(Unauthorized):
        harness.report("a", {"one": [1]}, token=old)
    assert harness.at("one") is None


@pytest.mark.parametrize("token", ["", "guessed", "köln"])
def test_a_report_with_a_wrong_token_is_refused(token):
    harness = CoordinatorHarness()
    harness.join("a")
    with pytest.raises(Unauthorized):
        harness.report("a", {"one": [1]}, token=token)
    assert harness.at("one") is None


def test_no_broker_reports_for_another():
    harness = CoordinatorHarness()
    harness.join("a")
    token = harness.register("b").token
    with pytest.raises(Unauthorized):
        harness.report("a", {"one": [1]}, token=token)


def test_after_a_restart_of_the_coordinator_a_broker_has_to_register():
    harness = CoordinatorHarness()
    token = harness.register("a").token
    harness.restart()
    with pytest.raises(Unauthorized):
        harness.report("a", number=1, token=token)


def test_a_broker_that_was_silent_for_long_reports_everything():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.tick(20)
    assert harness.report("a", {"two": [1]}).full
    harness.report("a", {"one": [1], "two": [1]}, full=True)
    assert harness.at("one") == harness.at("two") == "a"


def test_of_two_brokers_the_last_to_claim_a_subscriber_counts():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2]})
    harness.place_and_report("b", {"one": [1]})
    assert harness.at("one") == "b" and harness.has("one") == [1]
    assert harness.topology()["subscribers"] == 1


def test_the_older_claim_counts_again_if_the_newer_is_withdrawn():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2]})
    harness.place_and_report("b", {"one": [3]})
    harness.report("b", left=["one"])
    assert harness.at("one") == "a" and harness.has("one") == [1, 2]


def test_tidying_up_at_the_older_broker_does_not_bring_the_subscriber_back():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2]})
    harness.place_and_report("b", {"one": [1, 2]})
    harness.report("a", {"one": [1]})
    assert harness.at("one") == "b"
    harness.report("a", left=["one"])
    assert harness.at("one") == "b"


def test_the_older_claim_is_as_it_was_last_told():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2]})
    harness.place_and_report("b", {"one": [3]})
    harness.report("a", {"one": [9]})
    harness.report("b", left=["one"])
    assert harness.has("one") == [9]


def test_of_three_the_newest_two_count_in_turn():
    harness = CoordinatorHarness()
    for broker in "abc":
        harness.place_and_report(broker, {"one": [1]})
    harness.report("c", left=["one"])
    assert harness.at("one") == "b"
    harness.report("a", left=["one"])
    harness.report("b", left=["one"])
    assert harness.at("one") is None


def test_if_the_newer_broker_dies_the_older_claim_counts():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.place_and_report("b", {"one": [1]})
    harness.run(20, "a")
    assert harness.at("one") == "a"


def test_if_the_older_broker_dies_nothing_changes():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.place_and_report("b", {"one": [1]})
    harness.run(20, "b")
    harness.report("b", left=["one"])
    assert harness.at("one") is None


def test_a_full_report_withdraws_older_claims_too():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.place_and_report("b", {"one": [1]})
    harness.report("a", full=True)
    harness.report("b", left=["one"])
    assert harness.at("one") is None


def dropped(harness, seconds):
    found = {"a": [], "b": []}
    for _ in range(int(seconds)):
        harness.tick()
        for broker, names in found.items():
            names += harness.report(broker).drop
    return found


def test_the_older_broker_is_told_to_drop_a_subscriber_that_two_have():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.place_and_report("b", {"one": [1]})
    assert dropped(harness, OVERLAP) == {"a": [], "b": []}
    assert dropped(harness, 2) == {"a": ["one"], "b": []}


def test_it_is_told_again_if_it_did_not_hear():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.place_and_report("b", {"one": [1]})
    assert dropped(harness, 2 * OVERLAP + 4)["a"] == ["one", "one"]


def test_it_is_not_told_what_it_has_done_already():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.place_and_report("b", {"one": [1]})
    for _ in range(int(OVERLAP) + 2):
        harness.tick()
        harness.report("b")
        if harness.now % 5 == 0 and not harness.state.members["a"].superseded:
            harness.report("a")
    assert harness.report("a", left=["one"]).drop == []


def test_a_claim_that_nobody_was_sent_for_does_not_count():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2]})
    harness.join("b", {"one": [3]})
    assert harness.at("one") == "a" and harness.has("one") == [1, 2]
    assert harness.notes_of("refused") == ["b reports a subscriber of a that was not sent to it"]
    harness.report("b", {"one": [3, 4]})
    assert harness.at("one") == "a" and len(harness.notes_of("refused")) == 1


def test_it_counts_when_the_other_has_let_go():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.join("b", {"one": [3]})
    harness.report("a", left=["one"])
    assert harness.at("one") == "b" and harness.has("one") == [3]


def test_it_counts_when_the_other_is_dead():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.join("b", {"one": [3]})
    harness.run(20, "b")
    assert harness.at("one") == "b"


def test_a_broker_cannot_have_others_drop_their_subscribers():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.join("b", {"one": [1]})
    assert dropped(harness, UNEXPECTED) == {"a": [], "b": []}
    assert dropped(harness, 3) == {"a": [], "b": ["one"]}


def test_a_ticket_of_long_ago_is_no_reason():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.join("b")
    harness.place("one", avoid=["a"])
    harness.run(200, "a", "b")
    harness.report("a", {"one": [1]})
    harness.report("b", {"one": [1]})
    assert harness.at("one") == "a" and not harness.state._tickets._expected


def test_an_order_is_a_reason():
    harness = CoordinatorHarness(strategy="ldm")
    harness.join("a", {f"subscriber-{number}": [number] for number in range(4)}, rates=dict.fromkeys(range(4), 9.0))
    harness.join("b")
    harness.tick(1)
    order = harness.report("a").migrations[0]
    harness.report("b", {order.subscriber: [1]})
    assert harness.at(order.subscriber) == "b" and harness.notes_of("refused") == []


def test_what_nobody_has_is_forgotten_after_a_while_and_its_number_given_again():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]}, rates={1: 10.0})
    for number in range(2, 40):
        harness.report("a", {"one": [number]}, rates={number: 10.0})
        harness.run(120, "a")
    model = harness.state.model
    assert len(model.subscriptions) <= IDLE / 120 + 3 and harness.has("one") == [39]
    assert len(model.load.lam) <= 32
    harness.report("a", {"one": [1]})
    assert harness.topology()["brokers"][0]["load_out"] == 0.0, "its rate was forgotten too"


def test_a_broker_that_tells_of_any_number_of_things_that_nobody_has_is_not_believed_for_ever():
    harness = CoordinatorHarness()
    harness.state.model._max_subscriptions = 10
    harness.join("a", {"one": [1]}, rates={1: 10.0})
    for first in range(2, 1_000, 50):
        harness.report("a", rates=dict.fromkeys(range(first, first + 50), 1.0))
    assert len(harness.state.model.subscriptions) == 10
    harness.report("a", {"one": [1, 5_000]}, rates={1: 9.0, 5_000: 3.0})
    assert (_rate(harness, 1), _rate(harness, 5_000)) == (9.0, 3.0), "what somebody has is known whatever there is"


def test_what_somebody_may_come_back_to_is_not_forgotten():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [7]}, rates={7: 10.0})
    harness.place_and_report("b", {"one": [8]})
    harness.run(2 * IDLE, "a", "b")
    harness.report("b", left=["one"])
    assert harness.at("one") == "a" and harness.has("one") == [7]
    assert harness.topology()["brokers"][0]["load_out"] == 10.0


def test_what_a_broker_tells_the_rate_of_is_not_forgotten():
    harness = CoordinatorHarness()
    harness.join("a", rates={7: 10.0})
    for second in range(3):
        harness.run(IDLE / 2, "a")
        harness.report("a", rates={7: 10.0 + second})
    harness.report("a", {"one": [7]})
    assert harness.topology()["brokers"][0]["load_out"] == 12.0
