"""The model follows reports that are late, lost, repeated, or of two brokers about one subscriber."""

from __future__ import annotations

import pytest
from coordinator_harness import CoordinatorHarness

from tocsin.coordinator.core.network_model import IDLE, OVERLAP, UNEXPECTED
from tocsin.errors import Unauthorized


def test_a_report_adds_changes_and_removes_subscribers():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1], "two": [2]})
    harness.report("a", {"three": [1, 2], "one": [5]}, left=["two"])
    assert [harness.at(name) for name in ("one", "two", "three")] == ["a", None, "a"]
    assert harness.has("one") == [5] and harness.has("three") == [1, 2]


def test_a_full_report_removes_subscribers_that_it_omits():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1], "two": [2]})
    harness.report("a", {"two": [2]}, full=True)
    assert harness.at("one") is None and harness.at("two") == "a"


def test_a_reply_names_other_brokers_that_accept_subscribers():
    harness = CoordinatorHarness()
    for name in "abcd":
        harness.join(name)
    harness.drain("c")
    assert set(harness.report("b").alternatives) == {"a", "d"}
    assert harness.report("d").alternatives == {name: harness.state.members[name].row.url for name in "ab"}


def test_brokers_of_a_large_network_get_different_alternatives():
    harness = CoordinatorHarness()
    names = [f"b{number:02}" for number in range(20)]
    for name in names:
        harness.join(name)
    found = {name: set(harness.report(name).alternatives) for name in names}
    assert {len(each) for each in found.values()} == {8}
    assert all(sum(name in each for each in found.values()) == 8 for name in names)


def test_a_subscriber_without_subscriptions_is_counted():
    harness = CoordinatorHarness()
    harness.join("a", {"one": []})
    assert harness.at("one") == "a" and harness.topology()["subscribers"] == 1


def test_the_load_is_computed_as_in_the_papers():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2], "two": [1]}, rates={1: 10.0, 2: 1.0})
    (row,) = harness.topology()["brokers"]
    assert (row["load_in"], row["load_out"]) == (11.0, 21.0)


@pytest.mark.parametrize("later", [0.5, 12.0])
def test_a_broker_that_began_to_measure_later_does_not_change_a_rate(later):
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]}, rates={1: 10.0})
    harness.join("b", {"two": [1]}, rates={1: later})
    assert _rate(harness, 1) == 10.0
    harness.report("b", rates={1: later})
    assert _rate(harness, 1) == 10.0
    harness.report("a", rates={1: 11.0})
    assert _rate(harness, 1) == 11.0


def test_a_rate_from_a_broker_without_subscribers_of_it_is_replaced():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]}, rates={1: 10.0})
    harness.join("b", {"two": [1]}, rates={1: 0.5})
    harness.report("a", left=["one"])
    harness.report("b", rates={1: 0.5})
    assert _rate(harness, 1) == 0.5


def test_a_migrating_group_keeps_its_rate_until_the_target_has_measured_it():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]}, rates={1: 10.0})
    harness.place_and_report("b", {"one": [1]})
    harness.report("a", left=["one"])
    for measured in (0.0, 4.0, 9.0):
        harness.report("b", rates={1: measured}, fresh=[1])
        assert _rate(harness, 1) == 10.0
    harness.report("b", rates={1: 11.0}, fresh=[1])
    assert _rate(harness, 1) == 11.0
    harness.report("b", rates={1: 8.0})
    assert _rate(harness, 1) == 8.0


def _rate(harness: CoordinatorHarness, subscription: int) -> float:
    model = harness.state.model
    return float(model.load.lam[model.subscriptions.number(subscription)])


def test_a_report_changes_a_rate():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]}, rates={1: 10.0})
    harness.report("a", rates={1: 7.0})
    assert harness.topology()["brokers"][0]["load_out"] == 7.0


def test_the_first_report_has_to_be_full():
    harness = CoordinatorHarness()
    harness.register("a")
    assert harness.report("a", {"one": [1]}).full
    assert harness.at("one") is None


def test_after_a_lost_report_the_coordinator_requests_a_full_one():
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


def test_a_broker_cannot_report_for_another():
    harness = CoordinatorHarness()
    harness.join("a")
    token = harness.register("b").token
    with pytest.raises(Unauthorized):
        harness.report("a", {"one": [1]}, token=token)


def test_after_a_restart_of_the_coordinator_a_broker_must_register_again():
    harness = CoordinatorHarness()
    token = harness.register("a").token
    harness.restart()
    with pytest.raises(Unauthorized):
        harness.report("a", number=1, token=token)


def test_a_broker_that_was_silent_for_long_must_send_a_full_report():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.tick(20)
    assert harness.report("a", {"two": [1]}).full
    harness.report("a", {"one": [1], "two": [1]}, full=True)
    assert harness.at("one") == harness.at("two") == "a"


def test_the_newest_claim_to_a_subscriber_wins():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2]})
    harness.place_and_report("b", {"one": [1]})
    assert harness.at("one") == "b" and harness.has("one") == [1]
    assert harness.topology()["subscribers"] == 1


def test_the_older_claim_is_restored_when_the_newer_one_is_withdrawn():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2]})
    harness.place_and_report("b", {"one": [3]})
    harness.report("b", left=["one"])
    assert harness.at("one") == "a" and harness.has("one") == [1, 2]


def test_a_report_of_the_older_broker_does_not_reclaim_the_subscriber():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2]})
    harness.place_and_report("b", {"one": [1, 2]})
    harness.report("a", {"one": [1]})
    assert harness.at("one") == "b"
    harness.report("a", left=["one"])
    assert harness.at("one") == "b"


def test_a_restored_claim_has_the_subscriptions_last_reported():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2]})
    harness.place_and_report("b", {"one": [3]})
    harness.report("a", {"one": [9]})
    harness.report("b", left=["one"])
    assert harness.has("one") == [9]


def test_claims_of_three_brokers_are_restored_from_newest_to_oldest():
    harness = CoordinatorHarness()
    for broker in "abc":
        harness.place_and_report(broker, {"one": [1]})
    harness.report("c", left=["one"])
    assert harness.at("one") == "b"
    harness.report("a", left=["one"])
    harness.report("b", left=["one"])
    assert harness.at("one") is None


def test_the_older_claim_is_restored_when_the_newer_broker_dies():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.place_and_report("b", {"one": [1]})
    harness.run(20, "a")
    assert harness.at("one") == "a"


def test_the_death_of_the_older_broker_removes_its_claim():
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


def test_the_older_broker_drops_a_subscriber_that_two_brokers_claim():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.place_and_report("b", {"one": [1]})
    assert dropped(harness, OVERLAP) == {"a": [], "b": []}
    assert dropped(harness, 2) == {"a": ["one"], "b": []}


def test_the_request_to_drop_a_subscriber_is_repeated():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.place_and_report("b", {"one": [1]})
    assert dropped(harness, 2 * OVERLAP + 4)["a"] == ["one", "one"]


def test_a_broker_that_dropped_the_subscriber_gets_no_further_request():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.place_and_report("b", {"one": [1]})
    for _ in range(int(OVERLAP) + 2):
        harness.tick()
        harness.report("b")
        if harness.now % 5 == 0 and not harness.state.members["a"].superseded:
            harness.report("a")
    assert harness.report("a", left=["one"]).drop == []


def test_a_claim_without_a_ticket_is_refused():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1, 2]})
    harness.join("b", {"one": [3]})
    assert harness.at("one") == "a" and harness.has("one") == [1, 2]
    assert harness.notes_of("refused") == ["b reports a subscriber of a that was not sent to it"]
    harness.report("b", {"one": [3, 4]})
    assert harness.at("one") == "a" and len(harness.notes_of("refused")) == 1


def test_a_refused_claim_counts_when_the_other_broker_withdraws_its_claim():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.join("b", {"one": [3]})
    harness.report("a", left=["one"])
    assert harness.at("one") == "b" and harness.has("one") == [3]


def test_a_refused_claim_counts_when_the_other_broker_dies():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.join("b", {"one": [3]})
    harness.run(20, "b")
    assert harness.at("one") == "b"


def test_a_claim_without_a_ticket_makes_no_other_broker_drop_its_subscriber():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]})
    harness.join("b", {"one": [1]})
    assert dropped(harness, UNEXPECTED) == {"a": [], "b": []}
    assert dropped(harness, 3) == {"a": [], "b": ["one"]}


def test_an_expired_ticket_does_not_justify_a_claim():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.join("b")
    harness.place("one", avoid=["a"])
    harness.run(200, "a", "b")
    harness.report("a", {"one": [1]})
    harness.report("b", {"one": [1]})
    assert harness.at("one") == "a" and not harness.state._tickets._expected


def test_a_migration_order_justifies_a_claim():
    harness = CoordinatorHarness(strategy="ldm")
    harness.join("a", {f"subscriber-{number}": [number] for number in range(4)}, rates=dict.fromkeys(range(4), 9.0))
    harness.join("b")
    harness.tick(1)
    order = harness.report("a").migrations[0]
    harness.report("b", {order.subscriber: [1]})
    assert harness.at(order.subscriber) == "b" and harness.notes_of("refused") == []


def test_an_idle_subscription_is_forgotten_and_its_slot_is_used_again():
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


def test_the_number_of_subscriptions_without_subscribers_is_limited():
    harness = CoordinatorHarness()
    harness.state.model._max_subscriptions = 10
    harness.join("a", {"one": [1]}, rates={1: 10.0})
    for first in range(2, 1_000, 50):
        harness.report("a", rates=dict.fromkeys(range(first, first + 50), 1.0))
    assert len(harness.state.model.subscriptions) == 10
    harness.report("a", {"one": [1, 5_000]}, rates={1: 9.0, 5_000: 3.0})
    assert (_rate(harness, 1), _rate(harness, 5_000)) == (9.0, 3.0), "subscriptions with subscribers are always known"


def test_subscriptions_of_an_older_claim_are_not_forgotten():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [7]}, rates={7: 10.0})
    harness.place_and_report("b", {"one": [8]})
    harness.run(2 * IDLE, "a", "b")
    harness.report("b", left=["one"])
    assert harness.at("one") == "a" and harness.has("one") == [7]
    assert harness.topology()["brokers"][0]["load_out"] == 10.0


def test_a_subscription_with_a_reported_rate_is_not_forgotten():
    harness = CoordinatorHarness()
    harness.join("a", rates={7: 10.0})
    for second in range(3):
        harness.run(IDLE / 2, "a")
        harness.report("a", rates={7: 10.0 + second})
    harness.report("a", {"one": [7]})
    assert harness.topology()["brokers"][0]["load_out"] == 12.0
