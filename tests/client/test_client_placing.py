"""The client's state machine with a coordinator: asked first, asked again, and done without."""

from __future__ import annotations

from typing import Any

import pytest
from rig import Rig

from tocsin.client.core import events as ev
from tocsin.client.core.broker_candidates import Candidate
from tocsin.errors import Malformed, NotReady, Unauthorized, Unreachable
from tocsin.wire import close_codes
from tocsin.wire import messages as wire

DOWN = Unreachable("no coordinator answers")


def asked(rig: Rig) -> ev.Ask:
    return rig.did(ev.Ask)[-1]


def place(rig: Rig, broker: str = "first", url: str = "one", ticket: str | None = "ticket") -> None:
    rig.do(ev.Placed(asked(rig).request, broker, url, ticket))


def fail(rig: Rig, error: Any = DOWN) -> list[ev.Instruction]:
    return rig.do(ev.PlacementFailed(asked(rig).request, error))


def new(*urls: str, **options: Any) -> Rig:
    rig = Rig(*urls, coordinator=True, **options)
    rig.do(ev.Open())
    return rig


def opened(*urls: str, **options: Any) -> Rig:
    rig = new(*urls, **options)
    place(rig)
    rig.connect()
    rig.welcome(broker="first")
    return rig


def wait(rig: Rig) -> None:
    while rig.state.stage.value == "waiting":
        rig.tick()


def test_it_asks_before_it_connects_and_shows_the_ticket():
    rig = new()
    assert rig.done[0] == ev.Ask(1, []) and rig.tried == []
    place(rig)
    rig.connect()
    (hello,) = rig.said(wire.Hello)
    assert (rig.tried, hello.ticket, hello.subscriber) == (["one"], "ticket", rig.state.subscriber)
    rig.welcome(broker="first")
    assert rig.state.status.broker == "first"


def test_with_a_password_it_logs_in_where_it_is_placed():
    rig = new(login=True)
    place(rig)
    assert rig.done[-1] == ev.Login("one")
    rig.do(ev.LoggedIn("t"))
    rig.connect()
    assert (rig.said(wire.Hello)[0].token, rig.said(wire.Hello)[0].ticket) == ("t", "ticket")


def test_after_a_break_the_same_broker_is_tried_once_without_a_ticket_then_another_is_asked_for():
    rig = opened()
    rig.cut()
    wait(rig)
    assert rig.tried == ["one", "one"] and len(rig.did(ev.Ask)) == 1
    rig.cut()
    wait(rig)
    assert asked(rig).avoid == ["first"]
    place(rig, "second", "two", "another")
    rig.connect()
    assert (rig.tried[-1], rig.said(wire.Hello)[0].ticket) == ("two", "another")


def test_who_finds_nobody_where_it_was_asks_for_another_broker_without_waiting_again():
    rig = opened()
    rig.cut()
    wait(rig)
    now = rig.now
    rig.cut()
    wait(rig)
    assert asked(rig).avoid == ["first"] and rig.now == now
    place(rig, "second", "two", "another")
    rig.cut()
    wait(rig)
    assert rig.now > now


def test_the_same_broker_that_takes_it_back_gets_no_ticket():
    rig = opened()
    rig.cut()
    rig.come_back()
    assert rig.said(wire.Hello)[0].ticket is None and len(rig.did(ev.Ask)) == 1


def test_all_that_failed_are_avoided_until_one_welcomes():
    rig = new(patient=True)
    for name in ("first", "second", "third"):
        place(rig, name, name)
        rig.cut()
        wait(rig)
    assert asked(rig).avoid == ["first", "second", "third"]
    place(rig, "fourth", "four")
    rig.connect()
    rig.welcome(broker="fourth")
    rig.cut(close_codes.TRY_LATER.code)
    wait(rig)
    assert asked(rig).avoid == ["fourth"]


@pytest.mark.parametrize("code", [close_codes.MIGRATED.code, close_codes.TRY_LATER.code])
def test_a_broker_that_sends_it_away_is_not_tried_again(code):
    rig = opened()
    rig.cut(code)
    wait(rig)
    assert rig.tried == ["one"] and asked(rig).avoid == ["first"]


def test_a_ticket_that_is_refused_is_left_at_home():
    rig = new()
    place(rig)
    rig.connect()
    rig.cut(close_codes.BAD_TICKET.code, "expired")
    assert rig.tried == ["one", "one"]
    rig.connect()
    assert rig.said(wire.Hello)[0].ticket is None
    rig.welcome(broker="first")
    assert rig.state.status.state == "connected"


def test_without_the_coordinator_it_goes_on_with_the_brokers_it_was_told_of():
    rig = opened()
    rig.hear(wire.Migrate("second", "two", "next"))
    rig.connect()
    rig.welcome(broker="second")
    assert rig.state.status.url == "two"
    rig.cut()
    for _ in range(4):
        wait(rig)
        if rig.state.stage.value == "placing":
            fail(rig)
        rig.cut()
    assert rig.tried == ["one", "two", "two", "one", "two", "one"]
    assert rig.state.status.state == "waiting"


def test_without_the_coordinator_it_begins_with_the_addresses_it_was_given():
    rig = new("spare", "other")
    fail(rig)
    assert rig.tried == ["spare"]
    rig.cut()
    wait(rig)
    fail(rig)
    assert rig.tried == ["spare", "other"]


def test_a_coordinator_that_was_never_there_is_an_error():
    rig = new()
    (stopped,) = [each for each in fail(rig) if isinstance(each, ev.Stopped)]
    assert stopped.error is DOWN


def test_a_patient_client_waits_for_the_coordinator():
    rig = new(patient=True)
    for _ in range(3):
        fail(rig, NotReady("no broker has room"))
        assert rig.state.status.state == "waiting"
        wait(rig)
    place(rig)
    assert rig.tried == ["one"]


@pytest.mark.parametrize("error", [Malformed("no"), Unauthorized("no")])
def test_a_coordinator_that_will_never_answer_is_an_error_even_for_a_patient_one(error):
    rig = new(patient=True)
    fail(rig, error)
    assert rig.did(ev.Stopped) == [ev.Stopped(error)]


def test_one_that_is_not_patient_gives_up_after_a_few_brokers():
    rig = new()
    for name in ("first", "second", "third"):
        place(rig, name, name)
        rig.cut()
        wait(rig)
    assert rig.state.status.state == "closed" and isinstance(rig.did(ev.Stopped)[0].error, Unreachable)


def test_a_coordinator_that_does_not_answer_in_time_is_done_without():
    rig = new("spare")
    question = asked(rig)
    rig.tick()
    assert rig.tried == ["spare"]
    rig.do(ev.Placed(question.request, "first", "one", "ticket"))
    rig.do(ev.PlacementFailed(question.request, DOWN))
    assert rig.tried == ["spare"] and rig.state.status.state == "connecting"


def test_an_answer_to_an_earlier_question_is_of_no_interest():
    rig = new(patient=True)
    first = asked(rig)
    fail(rig)
    wait(rig)
    rig.do(ev.Placed(first.request, "first", "one", "ticket"))
    assert rig.tried == [] and asked(rig).request == first.request + 1


def test_closing_while_it_asks_is_the_end():
    rig = new()
    rig.do(ev.WantClose())
    place(rig)
    assert rig.tried == [] and rig.state.status.state == "closed"


def test_only_so_many_brokers_are_remembered_and_the_given_ones_always():
    rig = opened("spare")
    for number in range(100):
        rig.state.places.settle(Candidate(f"url {number}", f"name {number}"))
    assert rig.state.places.urls[0] == "spare" and len(rig.state.places.urls) == 33
