"""The client's state machine with a coordinator that answers, refuses or is down."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from client_harness import ClientHarness

from tocsin.client.core import events as ev
from tocsin.client.core.broker_candidates import MEASURE_EVERY, Candidate, Candidates
from tocsin.errors import Malformed, NotReady, Unauthorized, Unreachable
from tocsin.wire import close_codes
from tocsin.wire import messages as wire

DOWN = Unreachable("no coordinator answers")


def broker_request(harness: ClientHarness) -> ev.RequestBroker:
    return harness.did(ev.RequestBroker)[-1]


def place(harness: ClientHarness, broker: str = "first", url: str = "one", ticket: str | None = "ticket") -> None:
    harness.do(ev.Placed(broker_request(harness).request, broker, url, ticket))


def fail(harness: ClientHarness, error: Any = DOWN) -> list[ev.Instruction]:
    return harness.do(ev.PlacementFailed(broker_request(harness).request, error))


def new(*urls: str, **options: Any) -> ClientHarness:
    harness = ClientHarness(*urls, coordinator=True, **options)
    harness.do(ev.OpenRequested())
    return harness


def opened(*urls: str, **options: Any) -> ClientHarness:
    harness = new(*urls, **options)
    place(harness)
    harness.connect()
    harness.welcome(broker="first")
    return harness


def wait(harness: ClientHarness) -> None:
    while harness.state.stage.value == "waiting":
        harness.tick()


def test_a_broker_without_tls_is_refused_when_the_coordinator_is_on_tls():
    harness = new(encrypted=True)
    place(harness, url="http://evil.example")
    (stopped,) = harness.did(ev.Stopped)
    assert harness.tried == [] and isinstance(stopped.error, Unreachable)
    assert "without TLS" in stopped.error.message


def test_a_broker_with_tls_is_accepted_from_a_coordinator_on_tls():
    harness = new(encrypted=True)
    place(harness, url="https://north.example")
    assert harness.tried == ["https://north.example"]


def test_after_a_refused_placement_the_client_tries_the_brokers_it_knows():
    harness = new("https://known.example", encrypted=True)
    place(harness, url="http://evil.example")
    assert harness.tried == ["https://known.example"]


def test_a_client_requests_a_broker_first_and_sends_its_ticket():
    harness = new()
    assert harness.done[0] == ev.RequestBroker(1, [], {}) and harness.tried == []
    place(harness)
    harness.connect()
    (hello,) = harness.sent_of(wire.Hello)
    assert (harness.tried, hello.ticket, hello.subscriber) == (["one"], "ticket", harness.state.subscriber)
    harness.welcome(broker="first")
    assert harness.state.status.broker == "first"


def test_with_nearest_the_client_measures_before_it_requests_a_broker():
    harness = ClientHarness(coordinator=True, nearest=True)
    assert ev.MeasureRoundTrips(1) in harness.do(ev.OpenRequested())
    assert harness.did(ev.RequestBroker) == []
    assert harness.do(ev.RoundTripsMeasured(7, {"south": 1.0})) == [], "the answer belongs to another request"
    assert ev.RequestBroker(1, [], {"north": 12.5}) in harness.do(ev.RoundTripsMeasured(1, {"north": 12.5}))


def test_round_trips_are_used_again_for_some_minutes():
    harness = ClientHarness(coordinator=True, nearest=True)
    harness.do(ev.OpenRequested())
    harness.do(ev.RoundTripsMeasured(1, {"north": 12.5}))
    for seconds, measurements in ((MEASURE_EVERY - 1, 1), (1, 2)):
        harness.do(ev.Placed(harness.did(ev.RequestBroker)[-1].request, "north", "http://north", "ticket"))
        harness.connect()
        harness.welcome()
        harness.now += seconds
        harness.cut(close_codes.TRY_LATER.code)
        wait(harness)
        assert len(harness.did(ev.MeasureRoundTrips)) == measurements
    assert harness.did(ev.RequestBroker)[-1].distances == {"north": 12.5}


def test_a_client_without_measurements_requests_a_broker_and_measures_again_later():
    harness = ClientHarness(coordinator=True, nearest=True, wait_for_broker=True)
    harness.do(ev.OpenRequested())
    assert ev.RequestBroker(1, [], {}) in harness.do(ev.RoundTripsMeasured(1, {}))
    harness.do(ev.PlacementFailed(1, Unreachable("no")))
    assert ev.MeasureRoundTrips(2) in harness.tick()


def test_if_the_measurement_never_ends_the_placement_fails():
    harness = ClientHarness("known", coordinator=True, nearest=True)
    harness.do(ev.OpenRequested())
    harness.tick()
    assert harness.tried == ["known"]


def test_a_client_with_a_password_logs_in_at_the_coordinator():
    harness = new(login=True)
    place(harness)
    assert harness.done[-1] == ev.Login("")
    harness.do(ev.LoggedIn("t"))
    harness.connect()
    assert (harness.sent_of(wire.Hello)[0].token, harness.sent_of(wire.Hello)[0].ticket) == ("t", "ticket")


def test_after_a_break_the_client_retries_its_broker_once_and_then_requests_another():
    harness = opened()
    harness.cut()
    wait(harness)
    assert harness.tried == ["one", "one"] and len(harness.did(ev.RequestBroker)) == 1
    harness.cut()
    wait(harness)
    assert broker_request(harness).avoid == ["first"]
    place(harness, "second", "two", "another")
    harness.connect()
    assert (harness.tried[-1], harness.sent_of(wire.Hello)[0].ticket) == ("two", "another")


def test_a_client_whose_broker_is_gone_requests_another_without_waiting_again():
    harness = opened()
    harness.cut()
    wait(harness)
    now = harness.now
    harness.cut()
    wait(harness)
    assert broker_request(harness).avoid == ["first"] and harness.now == now
    place(harness, "second", "two", "another")
    harness.cut()
    wait(harness)
    assert harness.now > now


def test_reconnecting_to_the_same_broker_needs_no_ticket():
    harness = opened()
    harness.cut()
    harness.reconnect()
    assert harness.sent_of(wire.Hello)[0].ticket is None and len(harness.did(ev.RequestBroker)) == 1


def test_all_failed_brokers_are_avoided_until_one_welcomes_the_client():
    harness = new(wait_for_broker=True)
    for name in ("first", "second", "third"):
        place(harness, name, name)
        harness.cut()
        wait(harness)
    assert broker_request(harness).avoid == ["first", "second", "third"]
    place(harness, "fourth", "four")
    harness.connect()
    harness.welcome(broker="fourth")
    harness.cut(close_codes.TRY_LATER.code)
    wait(harness)
    assert broker_request(harness).avoid == ["fourth"]


@pytest.mark.parametrize("code", [close_codes.MIGRATED.code, close_codes.TRY_LATER.code])
def test_a_broker_that_closes_with_migrated_or_try_later_is_not_retried(code):
    harness = opened()
    harness.cut(code)
    wait(harness)
    assert harness.tried == ["one"] and broker_request(harness).avoid == ["first"]


def test_a_client_with_a_refused_ticket_connects_without_one():
    harness = new()
    place(harness)
    harness.connect()
    harness.cut(close_codes.BAD_TICKET.code, "expired")
    assert harness.tried == ["one", "one"]
    harness.connect()
    assert harness.sent_of(wire.Hello)[0].ticket is None
    harness.welcome(broker="first")
    assert harness.state.status.state == "connected"


def test_a_client_without_a_coordinator_uses_its_known_brokers():
    harness = opened()
    harness.receive(wire.Migrate("second", "two", "next"))
    harness.connect()
    harness.welcome(broker="second")
    assert harness.state.status.url == "two"
    harness.cut()
    for _ in range(4):
        wait(harness)
        if harness.state.stage.value == "placing":
            fail(harness)
        harness.cut()
    assert harness.tried == ["one", "two", "two", "one", "two", "one"]
    assert harness.state.status.state == "waiting"


def test_a_client_without_a_coordinator_begins_with_the_given_addresses():
    harness = new("spare", "other")
    fail(harness)
    assert harness.tried == ["spare"]
    harness.cut()
    wait(harness)
    fail(harness)
    assert harness.tried == ["spare", "other"]


def test_an_unreachable_coordinator_is_an_error():
    harness = new()
    (stopped,) = [each for each in fail(harness) if isinstance(each, ev.Stopped)]
    assert stopped.error is DOWN


def test_wait_for_broker_retries_the_coordinator():
    harness = new(wait_for_broker=True)
    for _ in range(3):
        fail(harness, NotReady("no broker has room"))
        assert harness.state.status.state == "waiting"
        wait(harness)
    place(harness)
    assert harness.tried == ["one"]


@pytest.mark.parametrize("error", [Malformed("no"), Unauthorized("no")])
def test_a_final_error_of_the_coordinator_ends_even_wait_for_broker(error):
    harness = new(wait_for_broker=True)
    fail(harness, error)
    assert harness.did(ev.Stopped) == [ev.Stopped(error)]


def test_without_wait_for_broker_the_client_gives_up_after_three_brokers():
    harness = new()
    for name in ("first", "second", "third"):
        place(harness, name, name)
        harness.cut()
        wait(harness)
    assert harness.state.status.state == "closed" and isinstance(harness.did(ev.Stopped)[0].error, Unreachable)


def test_a_client_uses_its_known_brokers_if_the_coordinator_times_out():
    harness = new("spare")
    request = broker_request(harness)
    harness.tick()
    assert harness.tried == ["spare"]
    harness.do(ev.Placed(request.request, "first", "one", "ticket"))
    harness.do(ev.PlacementFailed(request.request, DOWN))
    assert harness.tried == ["spare"] and harness.state.status.state == "connecting"


def test_an_answer_to_an_earlier_request_is_ignored():
    harness = new(wait_for_broker=True)
    first = broker_request(harness)
    fail(harness)
    wait(harness)
    harness.do(ev.Placed(first.request, "first", "one", "ticket"))
    assert harness.tried == [] and broker_request(harness).request == first.request + 1


def test_closing_during_placement_ends_the_client():
    harness = new()
    harness.do(ev.CloseRequested())
    place(harness)
    assert harness.tried == [] and harness.state.status.state == "closed"


def test_the_number_of_remembered_brokers_is_limited_and_given_ones_are_kept():
    harness = opened("spare")
    for number in range(100):
        harness.state.candidates.assign(Candidate(f"url {number}", f"name {number}"))
    assert harness.state.candidates.urls[0] == "spare" and len(harness.state.candidates.urls) == 33


def tried_without_coordinator(harness: ClientHarness, count: int) -> list[str]:
    """The brokers that a client tries after its own, while the coordinator is down."""
    before = len(harness.tried)
    harness.cut()
    while len(harness.tried) < before + count:
        wait(harness)
        if harness.state.stage.value == "placing":
            fail(harness)
        harness.cut()
    return harness.tried[before:]


def test_a_client_tries_the_alternatives_of_its_broker_while_the_coordinator_is_down():
    harness = new()
    place(harness)
    harness.connect()
    harness.welcome(broker="first", alternatives={"second": "two", "third": "three"})
    tried = tried_without_coordinator(harness, 4)
    assert tried[0] == "one" and set(tried[1:3]) == {"two", "three"}


def test_alternatives_that_change_replace_those_before():
    harness = new()
    place(harness)
    harness.connect()
    harness.welcome(broker="first", alternatives={"second": "two"})
    harness.receive(wire.Ping(answer=False, alternatives={"third": "three"}))
    assert set(tried_without_coordinator(harness, 4)) == {"one", "three"}


def test_clients_spread_over_the_alternatives():
    first = set()
    for seed in range(40):
        candidates = Candidates(["one"])
        candidates.learn({name: f"to {name}" for name in "abcd"}, Random(seed))
        candidates.next()
        first.add(candidates.here.url)
    assert first == {"to a", "to b", "to c", "to d"}


def test_a_client_on_an_encrypted_connection_ignores_unencrypted_alternatives():
    candidates = Candidates(["https://one"])
    candidates.learn({"a": "http://a", "b": "https://b"}, Random(1))
    assert candidates.urls == ["https://one", "https://b"]


def test_a_ping_is_answered_only_if_it_asks_for_it():
    harness = opened()
    harness.receive(wire.Ping(answer=False))
    assert harness.sent_of(wire.Pong) == []
    harness.receive(wire.Ping())
    assert harness.sent_of(wire.Pong) == [wire.Pong()]
