"""The picture follows the reports: late, lost, repeated, and of two brokers at once."""

from __future__ import annotations

import pytest
from office import Office

from tocsin.coordinator.core.network_model import BOTH, IDLE, UNASKED
from tocsin.errors import Unauthorized


def test_a_report_adds_and_takes_away():
    office = Office()
    office.join("a", {"one": [1], "two": [2]})
    office.report("a", {"three": [1, 2], "one": [5]}, left=["two"])
    assert [office.at(name) for name in ("one", "two", "three")] == ["a", None, "a"]
    assert office.has("one") == [5] and office.has("three") == [1, 2]


def test_a_full_report_says_all():
    office = Office()
    office.join("a", {"one": [1], "two": [2]})
    office.report("a", {"two": [2]}, full=True)
    assert office.at("one") is None and office.at("two") == "a"


def test_a_subscriber_without_subscriptions_is_there_too():
    office = Office()
    office.join("a", {"one": []})
    assert office.at("one") == "a" and office.topology()["subscribers"] == 1


def test_the_load_is_that_of_the_papers():
    office = Office()
    office.join("a", {"one": [1, 2], "two": [1]}, rates={1: 10.0, 2: 1.0})
    (row,) = office.topology()["brokers"]
    assert (row["load_in"], row["load_out"]) == (11.0, 21.0)


@pytest.mark.parametrize("later", [0.5, 12.0])
def test_a_broker_that_has_only_begun_to_count_does_not_change_a_rate(later):
    office = Office()
    office.join("a", {"one": [1]}, rates={1: 10.0})
    office.join("b", {"two": [1]}, rates={1: later})
    assert _rate(office, 1) == 10.0
    office.report("b", rates={1: later})
    assert _rate(office, 1) == 10.0
    office.report("a", rates={1: 11.0})
    assert _rate(office, 1) == 11.0


def test_the_rate_of_a_broker_that_serves_nobody_with_it_any_more_does_not_stand():
    office = Office()
    office.join("a", {"one": [1]}, rates={1: 10.0})
    office.join("b", {"two": [1]}, rates={1: 0.5})
    office.report("a", left=["one"])
    office.report("b", rates={1: 0.5})
    assert _rate(office, 1) == 0.5


def test_a_group_that_moves_weighs_what_it_weighed():
    office = Office()
    office.join("a", {"one": [1]}, rates={1: 10.0})
    office.welcome("b", {"one": [1]})
    office.report("a", left=["one"])
    for told in (0.0, 4.0, 9.0):
        office.report("b", rates={1: told}, fresh=[1])
        assert _rate(office, 1) == 10.0
    office.report("b", rates={1: 11.0}, fresh=[1])
    assert _rate(office, 1) == 11.0
    office.report("b", rates={1: 8.0})
    assert _rate(office, 1) == 8.0


def _rate(office: Office, back: int) -> float:
    picture = office.state.picture
    return float(picture.load.lam[picture.backs.number(back)])


def test_rates_change():
    office = Office()
    office.join("a", {"one": [1]}, rates={1: 10.0})
    office.report("a", rates={1: 7.0})
    assert office.topology()["brokers"][0]["load_out"] == 7.0


def test_the_first_report_has_to_be_full():
    office = Office()
    office.register("a")
    assert office.report("a", {"one": [1]}).full
    assert office.at("one") is None


def test_after_a_lost_report_everything_is_asked_for():
    office = Office()
    office.join("a")
    assert office.report("a", {"one": [1]}, number=3).full
    assert office.report("a", {"one": [1]}, number=4).full
    assert not office.report("a", {"one": [1], "two": [2]}, number=5, full=True).full
    assert office.at("two") == "a"


def test_a_repeated_report_changes_nothing():
    office = Office()
    office.join("a", {"one": [1]})
    office.report("a", left=["one"])
    assert office.report("a", {"one": [1]}, number=1, full=True).moves == []
    assert office.at("one") is None
    assert not office.report("a", {"two": [1]}, number=3).full


def test_a_report_from_before_a_registration_is_refused():
    office = Office()
    old = office.register("a").token
    office.report("a", {"one": [1]}, full=True)
    office.join("a", {"two": [2]})
    with pytest.raises(Unauthorized):
        office.report("a", {"one": [1]}, token=old)
    assert office.at("one") is None


@pytest.mark.parametrize("token", ["", "guessed", "köln"])
def test_a_report_with_a_wrong_token_is_refused(token):
    office = Office()
    office.join("a")
    with pytest.raises(Unauthorized):
        office.report("a", {"one": [1]}, token=token)
    assert office.at("one") is None


def test_no_broker_reports_for_another():
    office = Office()
    office.join("a")
    token = office.register("b").token
    with pytest.raises(Unauthorized):
        office.report("a", {"one": [1]}, token=token)


def test_after_a_restart_of_the_coordinator_a_broker_has_to_register():
    office = Office()
    token = office.register("a").token
    office.restart()
    with pytest.raises(Unauthorized):
        office.report("a", number=1, token=token)


def test_a_broker_that_was_silent_for_long_reports_everything():
    office = Office()
    office.join("a", {"one": [1]})
    office.tick(20)
    assert office.report("a", {"two": [1]}).full
    office.report("a", {"one": [1], "two": [1]}, full=True)
    assert office.at("one") == office.at("two") == "a"


def test_of_two_brokers_the_last_to_claim_a_subscriber_counts():
    office = Office()
    office.join("a", {"one": [1, 2]})
    office.welcome("b", {"one": [1]})
    assert office.at("one") == "b" and office.has("one") == [1]
    assert office.topology()["subscribers"] == 1


def test_the_older_claim_counts_again_if_the_newer_is_withdrawn():
    office = Office()
    office.join("a", {"one": [1, 2]})
    office.welcome("b", {"one": [3]})
    office.report("b", left=["one"])
    assert office.at("one") == "a" and office.has("one") == [1, 2]


def test_tidying_up_at_the_older_broker_does_not_bring_the_subscriber_back():
    office = Office()
    office.join("a", {"one": [1, 2]})
    office.welcome("b", {"one": [1, 2]})
    office.report("a", {"one": [1]})
    assert office.at("one") == "b"
    office.report("a", left=["one"])
    assert office.at("one") == "b"


def test_the_older_claim_is_as_it_was_last_told():
    office = Office()
    office.join("a", {"one": [1, 2]})
    office.welcome("b", {"one": [3]})
    office.report("a", {"one": [9]})
    office.report("b", left=["one"])
    assert office.has("one") == [9]


def test_of_three_the_newest_two_count_in_turn():
    office = Office()
    for broker in "abc":
        office.welcome(broker, {"one": [1]})
    office.report("c", left=["one"])
    assert office.at("one") == "b"
    office.report("a", left=["one"])
    office.report("b", left=["one"])
    assert office.at("one") is None


def test_if_the_newer_broker_dies_the_older_claim_counts():
    office = Office()
    office.join("a", {"one": [1]})
    office.welcome("b", {"one": [1]})
    office.alive(20, "a")
    assert office.at("one") == "a"


def test_if_the_older_broker_dies_nothing_changes():
    office = Office()
    office.join("a", {"one": [1]})
    office.welcome("b", {"one": [1]})
    office.alive(20, "b")
    office.report("b", left=["one"])
    assert office.at("one") is None


def test_a_full_report_withdraws_older_claims_too():
    office = Office()
    office.join("a", {"one": [1]})
    office.welcome("b", {"one": [1]})
    office.report("a", full=True)
    office.report("b", left=["one"])
    assert office.at("one") is None


def dropped(office, seconds):
    found = {"a": [], "b": []}
    for _ in range(int(seconds)):
        office.tick()
        for broker, names in found.items():
            names += office.report(broker).drop
    return found


def test_the_older_broker_is_told_to_drop_a_subscriber_that_two_have():
    office = Office()
    office.join("a", {"one": [1]})
    office.welcome("b", {"one": [1]})
    assert dropped(office, BOTH) == {"a": [], "b": []}
    assert dropped(office, 2) == {"a": ["one"], "b": []}


def test_it_is_told_again_if_it_did_not_hear():
    office = Office()
    office.join("a", {"one": [1]})
    office.welcome("b", {"one": [1]})
    assert dropped(office, 2 * BOTH + 4)["a"] == ["one", "one"]


def test_it_is_not_told_what_it_has_done_already():
    office = Office()
    office.join("a", {"one": [1]})
    office.welcome("b", {"one": [1]})
    for _ in range(int(BOTH) + 2):
        office.tick()
        office.report("b")
        if office.now % 5 == 0 and not office.state.members["a"].drop:
            office.report("a")
    assert office.report("a", left=["one"]).drop == []


def test_a_claim_that_nobody_was_sent_for_does_not_count():
    office = Office()
    office.join("a", {"one": [1, 2]})
    office.join("b", {"one": [3]})
    assert office.at("one") == "a" and office.has("one") == [1, 2]
    assert office.said("refused") == ["b says that it has a subscriber of a, and was not sent it"]
    office.report("b", {"one": [3, 4]})
    assert office.at("one") == "a" and len(office.said("refused")) == 1


def test_it_counts_when_the_other_has_let_go():
    office = Office()
    office.join("a", {"one": [1]})
    office.join("b", {"one": [3]})
    office.report("a", left=["one"])
    assert office.at("one") == "b" and office.has("one") == [3]


def test_it_counts_when_the_other_is_dead():
    office = Office()
    office.join("a", {"one": [1]})
    office.join("b", {"one": [3]})
    office.alive(20, "b")
    assert office.at("one") == "b"


def test_a_broker_cannot_have_others_drop_their_subscribers():
    office = Office()
    office.join("a", {"one": [1]})
    office.join("b", {"one": [1]})
    assert dropped(office, UNASKED) == {"a": [], "b": []}
    assert dropped(office, 3) == {"a": [], "b": ["one"]}


def test_a_ticket_of_long_ago_is_no_reason():
    office = Office()
    office.join("a")
    office.join("b")
    office.place("one", avoid=["a"])
    office.alive(200, "a", "b")
    office.report("a", {"one": [1]})
    office.report("b", {"one": [1]})
    assert office.at("one") == "a" and not office.state._expected


def test_an_order_is_a_reason():
    office = Office(strategy="ldm")
    office.join("a", {f"subscriber-{number}": [number] for number in range(4)}, rates=dict.fromkeys(range(4), 9.0))
    office.join("b")
    office.tick(1)
    order = office.report("a").moves[0]
    office.report("b", {order.subscriber: [1]})
    assert office.at(order.subscriber) == "b" and office.said("refused") == []


def test_what_nobody_has_is_forgotten_after_a_while_and_its_number_given_again():
    office = Office()
    office.join("a", {"one": [1]}, rates={1: 10.0})
    for number in range(2, 40):
        office.report("a", {"one": [number]}, rates={number: 10.0})
        office.alive(120, "a")
    picture = office.state.picture
    assert len(picture.backs) <= IDLE / 120 + 3 and office.has("one") == [39]
    assert len(picture.load.lam) <= 32
    office.report("a", {"one": [1]})
    assert office.topology()["brokers"][0]["load_out"] == 0.0, "its rate was forgotten too"


def test_a_broker_that_tells_of_any_number_of_things_that_nobody_has_is_not_believed_for_ever():
    office = Office()
    office.state.picture._most = 10
    office.join("a", {"one": [1]}, rates={1: 10.0})
    for first in range(2, 1_000, 50):
        office.report("a", rates=dict.fromkeys(range(first, first + 50), 1.0))
    assert len(office.state.picture.backs) == 10
    office.report("a", {"one": [1, 5_000]}, rates={1: 9.0, 5_000: 3.0})
    assert (_rate(office, 1), _rate(office, 5_000)) == (9.0, 3.0), "what somebody has is known whatever there is"


def test_what_somebody_may_come_back_to_is_not_forgotten():
    office = Office()
    office.join("a", {"one": [7]}, rates={7: 10.0})
    office.welcome("b", {"one": [8]})
    office.alive(2 * IDLE, "a", "b")
    office.report("b", left=["one"])
    assert office.at("one") == "a" and office.has("one") == [7]
    assert office.topology()["brokers"][0]["load_out"] == 10.0


def test_what_a_broker_tells_the_rate_of_is_not_forgotten():
    office = Office()
    office.join("a", rates={7: 10.0})
    for second in range(3):
        office.alive(IDLE / 2, "a")
        office.report("a", rates={7: 10.0 + second})
    office.report("a", {"one": [7]})
    assert office.topology()["brokers"][0]["load_out"] == 12.0
