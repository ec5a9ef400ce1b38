"""The client's state machine: migration to another broker, and every way in which it can fail."""

from __future__ import annotations

import pytest
from client_harness import ClientHarness, consumed, notify

from tocsin.client.core import events as ev
from tocsin.client.core.state import LINGER, MIGRATION
from tocsin.errors import NotFound, Uncertain
from tocsin.wire import close_codes
from tocsin.wire import messages as wire

TWO = wire.Migrate("second", "two", "ticket")


def migrating(**options: object) -> ClientHarness:
    """Subscribed on connection 1 up to execution 11, and ordered to migrate; connection 2 is being opened."""
    harness = ClientHarness(**options).open()
    harness.subscribed()
    harness.receive(notify(11), TWO)
    assert (harness.connection, harness.tried) == (2, ["one", "two"])
    return harness


def hello_sent(**options: object) -> ClientHarness:
    harness = migrating(**options)
    harness.connect()
    return harness


def welcomed(**options: object) -> ClientHarness:
    harness = hello_sent(**options)
    harness.welcome(broker="second")
    return harness


def resumed(after: int = 11, **options: object) -> ClientHarness:
    harness = welcomed(**options)
    (request,) = harness.sent_of(wire.Subscribe)
    harness.receive(wire.Subscribed(request.id, 6, "C", after))
    return harness


def migrated(**options: object) -> ClientHarness:
    harness = resumed(**options)
    harness.receive(wire.Live(6, 11))
    assert harness.state.current.number == 2
    return harness


def failures(harness: ClientHarness) -> list[wire.MigrationFailed]:
    return harness.sent_of(wire.MigrationFailed, on=1)


# -- successful migrations ---------------------------------------------------------------------------------------------


def test_hello_carries_subscriber_and_ticket_and_the_resume_follows_in_the_same_frame():
    harness = hello_sent(token="t")
    (frame,) = harness.frames
    hello, resume = frame
    assert (hello.token, hello.subscriber, hello.ticket) == ("t", harness.state.subscriber, "ticket")
    assert resume == wire.Subscribe(resume.id, "C", [], 11, 5)


def test_every_hello_has_the_same_subscriber_and_a_ticket_is_used_once():
    harness = migrated()
    harness.cut()
    harness.reconnect()
    assert harness.tried == ["one", "two", "two"]
    hellos = [hello for number in (1, 2, 3) for hello in harness.sent_of(wire.Hello, on=number)]
    assert [hello.subscriber for hello in hellos] == [harness.state.subscriber] * 3
    assert [hello.ticket for hello in hellos] == [None, "ticket", None]


def test_a_subscriber_is_22_random_letters_or_given():
    assert (
        len(ClientHarness().state.subscriber) == 22
        and ClientHarness().state.subscriber == ClientHarness().state.subscriber
    )
    assert ClientHarness(subscriber="subscriber").state.subscriber == "subscriber"


def test_the_old_connection_is_closed_when_all_subscriptions_are_live():
    harness = resumed()
    did = harness.receive(wire.Live(6, 11))
    assert ev.Close(1, close_codes.NORMAL.code) in did and harness.state.connections == [harness.state.current]
    status = harness.state.status
    assert (status.url, status.broker, status.migrations, status.state) == ("two", "second", 1, "connected")
    assert failures(harness) == []


def test_a_client_without_subscriptions_migrates_with_the_welcome():
    harness = ClientHarness().open()
    harness.receive(TWO)
    harness.connect()
    assert ev.Close(1, 1000) in harness.welcome(broker="second")


def test_the_migration_waits_until_all_subscriptions_are_live():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.subscribed(7, handle=2, channel="D")
    harness.receive(TWO)
    harness.connect()
    harness.welcome(broker="second")
    for number, request in enumerate(harness.sent_of(wire.Subscribe), 20):
        harness.receive(wire.Subscribed(request.id, number, request.channel, 10))
    harness.receive(wire.Live(20, 10))
    assert harness.state.current.number == 1
    harness.receive(wire.Live(21, 10))
    assert harness.state.current.number == 2


def test_both_connections_deliver_and_each_notification_arrives_once():
    harness = resumed()
    harness.receive(notify(12), on=1)
    harness.receive(notify(12, 6), notify(13, 6))
    harness.receive(notify(13), notify(14), on=1)
    harness.receive(notify(14, 6), wire.Live(6, 14), notify(15, 6))
    assert harness.got() == [11, 12, 13, 14, 15] and harness.state.status.duplicates == 3


def test_a_lagging_new_broker_repeats_nothing():
    harness = resumed(after=9)
    harness.receive(notify(10, 6), notify(11, 6), notify(12, 6), wire.Live(6, 12))
    assert harness.got() == [11, 12]


def test_the_id_at_the_new_broker_is_used_after_the_migration():
    harness = resumed()
    entry = harness.state.subscriptions.by_handle[1]
    assert (entry.id, entry.current_id) == (5, 5)
    harness.receive(wire.Live(6, 11))
    assert (entry.id, entry.current_id) == (6, 6)


def test_pings_are_answered_and_acks_go_to_both():
    harness = resumed(token="t")
    harness.receive(wire.Ping({"C": 11}))
    harness.receive(wire.Ping({"C": 11}), on=1)
    harness.now += 1
    harness.do(consumed(1, 11))
    assert len(harness.sent_of(wire.Pong)) == len(harness.sent_of(wire.Pong, on=1)) == 1
    assert harness.sent_of(wire.Ack, on=1)[-1].positions == {5: 11} and harness.sent_of(wire.Ack)[-1].positions == {
        6: 11
    }


def test_a_full_application_pauses_both_connections_and_does_not_delay_the_migration():
    harness = ClientHarness().open()
    harness.subscribed(max_pending=1)
    harness.receive(TWO)
    harness.connect()
    harness.welcome(broker="second")
    harness.receive(notify(11), on=1)
    assert (harness.lines[1].reading, harness.reading) == (False, True), "the new connection still waits for answers"
    (request,) = harness.sent_of(wire.Subscribe)
    did = harness.receive(wire.Subscribed(request.id, 6, "C", 10))
    assert ev.Close(1, 1000) in did and not harness.reading
    harness.do(consumed(1, 11))
    harness.receive(notify(11, 6), notify(12, 6))
    assert harness.got() == [11, 12]


def test_after_a_migration_the_new_address_is_tried_first_and_then_the_others():
    harness = migrated()
    for _ in range(3):
        harness.cut()
        harness.tick()
    assert harness.tried == ["one", "two", "two", "one", "two"]


def test_a_client_migrates_several_times():
    harness = migrated()
    harness.receive(wire.Migrate("third", "three", "next"))
    harness.connect()
    harness.welcome(broker="third")
    (request,) = harness.sent_of(wire.Subscribe)
    assert request.subscription == 6
    harness.receive(wire.Subscribed(request.id, 7, "C", 11), wire.Live(7, 11))
    assert harness.state.status.migrations == 2 and harness.state.status.broker == "third"


# -- requests ------------------------------------------------------------------------------------------------------


def test_the_old_connection_stays_open_until_a_publication_is_answered():
    harness = resumed()
    harness.do(ev.PublishRequested(1, "F", [b"{}"]))
    (sent,) = harness.sent_of(wire.Publish, on=1)
    assert ev.Close(1, 1000) not in harness.receive(wire.Live(6, 11))
    harness.do(ev.PublishRequested(2, "F", [b"{}"]))
    assert len(harness.sent_of(wire.Publish)) == 1, "a new publication goes to the new broker"
    did = harness.receive(wire.Published(sent.id, 1), on=1)
    assert [each.request for each in did if isinstance(each, ev.Resolve)] == [1] and ev.Close(1, 1000) in did


def test_the_rest_of_a_publication_goes_on_at_the_new_broker():
    harness = resumed()
    harness.do(ev.PublishRequested(1, "F", [b"{}"] * 1_500))
    (sent,) = harness.sent_of(wire.Publish, on=1)
    harness.receive(wire.Live(6, 11))
    harness.receive(wire.Published(sent.id, 1_000), on=1)
    (rest,) = harness.sent_of(wire.Publish)
    harness.receive(wire.Published(rest.id, 500))
    assert harness.did(ev.Resolve)[0].receipt.accepted == 1_500


def test_a_broker_that_never_answers_is_left_after_a_timeout():
    harness = resumed()
    harness.do(ev.PublishRequested(1, "F", [b"{}"]))
    harness.do(ev.PublishRequested(2, "F", [b"{}"], retry=True))
    harness.receive(wire.Live(6, 11))
    start = harness.now
    while len(harness.state.connections) == 2:
        harness.tick()
    assert harness.now == start + LINGER and ev.Close(1, 1000) in harness.done
    assert isinstance(harness.did(ev.Reject)[0].error, Uncertain)
    assert len(harness.sent_of(wire.Publish)) == 1, "a publication with retry is sent again"


def test_a_subscription_made_during_a_migration_is_requested_at_the_old_broker_and_resumed_at_the_new_one():
    harness = resumed()
    harness.do(ev.SubscribeRequested(2, "D", []))
    request = harness.sent_of(wire.Subscribe, on=1)[-1]
    assert request.channel == "D" and len(harness.sent_of(wire.Subscribe)) == 1
    harness.receive(wire.Subscribed(request.id, 8, "D", 30), on=1)
    again = harness.sent_of(wire.Subscribe)[-1]
    assert (again.channel, again.after, again.subscription) == ("D", 30, 8)
    harness.receive(wire.Live(6, 11))
    assert harness.state.current.number == 1, "the subscription is not live there yet"
    harness.receive(wire.Subscribed(again.id, 9, "D", 30), wire.Live(9, 30))
    assert harness.state.current.number == 2


def test_an_unconfirmed_subscription_does_not_delay_the_migration():
    harness = resumed()
    harness.do(ev.SubscribeRequested(2, "D", []))
    request = harness.sent_of(wire.Subscribe, on=1)[-1]
    assert ev.Close(1, 1000) not in harness.receive(wire.Live(6, 11))
    did = harness.receive(wire.Subscribed(request.id, 8, "D", 30), on=1)
    assert ev.Confirmed(2) in did and ev.Close(1, 1000) in did
    assert (harness.sent_of(wire.Subscribe)[-1].after, harness.sent_of(wire.Subscribe)[-1].subscription) == (30, 8)


@pytest.mark.parametrize("cut", [True, False], ids=["broken", "too long"])
def test_a_subscribe_without_an_answer_is_repeated_at_the_new_broker(cut):
    harness = resumed()
    harness.do(ev.SubscribeRequested(2, "D", []))
    harness.receive(wire.Live(6, 11))
    if cut:
        harness.cut(on=1)
    while len(harness.state.connections) == 2:
        harness.tick()
    request = harness.sent_of(wire.Subscribe)[-1]
    assert (request.channel, request.after) == ("D", None)


def test_a_subscription_requested_from_two_brokers_loses_nothing_between_them():
    harness = resumed()
    harness.do(ev.SubscribeRequested(2, "D", []))
    first = harness.sent_of(wire.Subscribe, on=1)[-1]
    harness.receive(wire.Live(6, 11))
    harness.cut()
    harness.reconnect()
    second = harness.sent_of(wire.Subscribe)[-1]
    assert (second.channel, second.after) == ("D", None)
    harness.receive(wire.Subscribed(first.id, 8, "D", 30), on=1)
    harness.receive(wire.Subscribed(second.id, 9, "D", 32), notify(33, 9, "D"))
    again = harness.sent_of(wire.Subscribe)[-1]
    assert (again.after, again.subscription, harness.got(2)) == (30, 8, [])


def test_a_refusal_of_the_old_broker_still_counts():
    harness = resumed()
    harness.do(ev.SubscribeRequested(2, "Nowhere", []))
    request = harness.sent_of(wire.Subscribe, on=1)[-1]
    harness.receive(wire.Live(6, 11))
    harness.receive(wire.Error(request.id, "not_found", "no"), on=1)
    (ended,) = harness.did(ev.Ended)
    assert ended.handle == 2 and isinstance(ended.error, NotFound)


@pytest.mark.parametrize("drain", [True, False])
def test_an_unsubscribe_during_a_migration_goes_to_both_brokers(drain):
    harness = resumed()
    harness.do(ev.UnsubscribeRequested(1, drain))
    (old,), (new,) = harness.sent_of(wire.Unsubscribe, on=1), harness.sent_of(wire.Unsubscribe)
    assert (old.subscription, new.subscription) == (5, 6)
    harness.receive(notify(12, 6), wire.Unsubscribed(new.id, 6))
    assert harness.state.current.number == 2 and ev.Unsubscribed(1) not in harness.done
    harness.receive(notify(12), wire.Unsubscribed(old.id, 5), on=1)
    assert (
        ev.Unsubscribed(1) in harness.done
        and harness.got() == ([11, 12] if drain else [11])
        and len(harness.state.connections) == 1
    )


def test_an_unsubscribe_before_the_new_brokers_answer_is_sent_after_the_answer():
    harness = welcomed()
    (request,) = harness.sent_of(wire.Subscribe)
    harness.do(ev.UnsubscribeRequested(1))
    harness.receive(wire.Subscribed(request.id, 6, "C", 11))
    assert [each.subscription for each in harness.sent_of(wire.Unsubscribe)] == [6]


@pytest.mark.parametrize("token", [None, "t"])
def test_an_unsubscribe_without_an_answer_of_the_old_broker_is_repeated_for_users_only(token):
    harness = resumed(token=token)
    harness.do(ev.UnsubscribeRequested(1))
    (mirrored,) = harness.sent_of(wire.Unsubscribe)
    harness.receive(wire.Unsubscribed(mirrored.id, 6))
    harness.cut(on=1)
    if token is None:
        assert ev.Unsubscribed(1) in harness.done
    else:
        request = harness.sent_of(wire.Unsubscribe)[-1]
        assert request.subscription == 5 and ev.Unsubscribed(1) not in harness.done
        harness.receive(wire.Error(request.id, "not_found", "no"))
        assert ev.Unsubscribed(1) in harness.done


# -- failed migrations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [migrating, hello_sent, welcomed, resumed])
@pytest.mark.parametrize("code", [None, *sorted(close_codes.CLOSES)])
def test_if_the_new_connection_ends_the_client_stays_on_the_old_one(step, code):
    harness = step(token="t")
    harness.cut(code, "why")
    assert failures(harness) == [wire.MigrationFailed("ticket", "why")]
    harness.receive(notify(12), on=1)
    assert harness.got() == [11, 12]
    assert (harness.state.status.state, harness.state.status.url, harness.state.status.migrations) == (
        "connected",
        "one",
        0,
    )
    assert harness.state.connections == [harness.state.current] and harness.tried == ["one", "two"]


@pytest.mark.parametrize("step", [migrating, hello_sent, welcomed, resumed])
def test_a_migration_has_a_timeout(step):
    harness = step()
    start = harness.now
    while harness.state.joining is not None:
        harness.receive(wire.Pong(), on=1)
        harness.tick()
    assert harness.now - start <= MIGRATION and len(failures(harness)) == 1
    assert not harness.line.open and harness.state.current.number == 1


@pytest.mark.parametrize(
    "trouble",
    [
        lambda id: wire.Error(id, "busy", "not now"),
        lambda id: wire.Error(id, "not_found", "there is no channel 'C'"),
    ],
    ids=["busy", "not found"],
)
def test_a_resume_that_the_new_broker_refuses_ends_only_the_migration(trouble):
    harness = welcomed()
    (request,) = harness.sent_of(wire.Subscribe)
    did = harness.receive(trouble(request.id), wire.Live(6, 20))
    assert ev.Close(2, 1000) in did and len(failures(harness)) == 1 and harness.did(ev.Ended) == []


def test_a_gap_at_the_new_broker_fails_the_migration():
    harness = resumed()
    did = harness.receive(wire.Gap(6, 11, 14, "retention"), notify(14, 6), wire.Live(6, 14))
    assert ev.Close(2, 1000) in did and "12 to 13" in failures(harness)[0].reason
    harness.receive(notify(12), notify(14), on=1)
    assert harness.got() == [11, 12, 14] and harness.state.status.gaps == 0


@pytest.mark.parametrize("live", [True, False])
def test_after_one_failure_at_the_same_gap_the_client_migrates_and_declares_the_gap(live):
    """The client is live at the old broker, but had no results for longer than the retention."""
    harness = resumed()
    harness.receive(wire.Gap(6, 11, 14, "retention"))
    if not live:
        harness.receive(wire.Lagging(5, 11), on=1)
    harness.receive(TWO, on=1)
    harness.connect()
    harness.welcome(broker="second")
    (request,) = harness.sent_of(wire.Subscribe)
    assert request.after == 11
    harness.receive(
        wire.Subscribed(request.id, 6, "C", 11), wire.Gap(6, 11, 16, "retention"), notify(17, 6), wire.Live(6, 17)
    )
    assert harness.state.current.number == (3 if live else 1)
    assert harness.state.status.gaps == (1 if live else 0)
    assert harness.got() == ([11, 17] if live else [11])


def test_results_of_a_subscription_that_the_old_broker_holds_were_not_released():
    harness = resumed()
    harness.receive(notify(12, 6), wire.Gap(6, 12, 14, "released"), notify(14, 6), wire.Live(6, 14))
    assert harness.state.current.number == 2 and harness.state.status.gaps == 0 and harness.got() == [11, 12, 14]


def test_results_may_be_released_if_the_old_broker_has_a_new_id_itself():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.cut()
    harness.reconnect()
    harness.receive(wire.Subscribed(harness.sent_of(wire.Subscribe)[0].id, 7, "C", 10), TWO)
    harness.connect()
    harness.welcome(broker="second")
    (request,) = harness.sent_of(wire.Subscribe)
    assert request.subscription == 5
    harness.receive(wire.Live(7, 11), on=2)
    harness.receive(wire.Subscribed(request.id, 6, "C", 10), wire.Gap(6, 10, 14, "released"))
    assert harness.state.current.number == 2 and "released" in harness.sent_of(wire.MigrationFailed, on=2)[0].reason


def test_a_gap_before_the_position_is_ignored():
    harness = resumed()
    harness.receive(notify(14), on=1)
    harness.receive(wire.Gap(6, 11, 14, "retention"), notify(14, 6), wire.Live(6, 14))
    assert harness.state.current.number == 2 and harness.state.status.gaps == 0


def test_a_channel_that_ends_at_the_new_broker_ends_at_the_old_one_or_not_at_all():
    harness = resumed()
    harness.receive(wire.Ended(6, "not_found", "dropped"))
    assert len(failures(harness)) == 1 and harness.did(ev.Ended) == []
    harness.receive(wire.Ended(5, "not_found", "dropped"), on=1)
    assert len(harness.did(ev.Ended)) == 1


def test_after_a_failed_migration_the_client_resumes_with_the_id_of_the_old_broker():
    harness = resumed()
    harness.receive(notify(12, 6))
    harness.cut()
    harness.cut(on=1)
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    assert (harness.tried, request.after, request.subscription) == (["one", "two", "one"], 12, 5)


# -- the old connection breaks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [None, 1001, close_codes.MIGRATED.code, close_codes.REPLACED.code])
@pytest.mark.parametrize("step", [welcomed, resumed])
def test_if_the_old_connection_breaks_a_welcomed_new_one_becomes_current_at_once(step, code):
    harness = step()
    did = harness.cut(code, on=1)
    assert harness.state.current.number == 2 and harness.state.status.state == "connected"
    assert not [each for each in did if isinstance(each, ev.Connect | ev.Stopped)]
    assert len(harness.sent_of(wire.Subscribe)) == 1, "the resume was already sent"


def test_unanswered_requests_of_a_broken_connection_go_to_the_new_one():
    harness = welcomed()
    harness.do(ev.SubscribeRequested(2, "D", []))
    harness.do(ev.PublishRequested(1, "F", [b"{}"], retry=True))
    harness.cut(on=1)
    assert harness.sent_of(wire.Subscribe)[-1].channel == "D" and len(harness.sent_of(wire.Publish)) == 1


@pytest.mark.parametrize("step", [migrating, hello_sent])
def test_if_the_old_connection_breaks_before_the_welcome_the_migration_fails(step):
    harness = step()
    did = harness.cut(on=1)
    assert [each.connection for each in did if isinstance(each, ev.Close)] == [2]
    assert harness.state.status.state == "waiting" and harness.state.connections == []
    harness.reconnect()
    assert harness.tried == ["one", "two", "one"]


def test_a_break_after_the_migration_is_an_ordinary_one():
    harness = resumed()
    harness.do(ev.PublishRequested(1, "F", [b"{}"]))
    (sent,) = harness.sent_of(wire.Publish, on=1)
    harness.receive(wire.Live(6, 11))
    harness.cut()
    harness.receive(notify(12), on=1)
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    assert request.after == 12 and len(harness.state.connections) == 2
    assert ev.Close(1, 1000) in harness.receive(wire.Published(sent.id, 1), on=1)


def test_closing_during_a_migration_closes_both_connections():
    harness = resumed()
    did = harness.do(ev.CloseRequested())
    assert {each.connection for each in did if isinstance(each, ev.Close)} == {1, 2}
    assert harness.did(ev.Ended) == [ev.Ended(1)] and harness.did(ev.Stopped) == [ev.Stopped()]


# -- refused migrations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [migrating, hello_sent, welcomed, resumed])
def test_the_newest_of_two_migrations_wins(step):
    harness = step()
    did = harness.receive(wire.Migrate("third", "three", "newer"), on=1)
    assert [each.connection for each in did if isinstance(each, ev.Close)] == [2] and harness.tried[-1] == "three"
    assert [failure.ticket for failure in failures(harness)] == ["ticket"] and len(harness.state.connections) == 2


def test_a_repeated_migrate_message_is_ignored():
    harness = hello_sent()
    harness.receive(TWO, on=1)
    assert harness.tried == ["one", "two"] and failures(harness) == []


def test_a_client_does_not_migrate_to_its_own_broker():
    harness = ClientHarness().open()
    harness.receive(wire.Migrate("b", "one", "ticket"))
    assert harness.tried == ["one"] and harness.sent_of(wire.MigrationFailed)[0].ticket == "ticket"


def test_a_client_does_not_migrate_again_before_it_has_left_its_previous_broker():
    harness = resumed()
    harness.do(ev.PublishRequested(1, "F", [b"{}"]))
    harness.receive(wire.Live(6, 11))
    harness.receive(wire.Migrate("third", "three", "newer"))
    assert harness.tried == ["one", "two"] and [
        failure.ticket for failure in harness.sent_of(wire.MigrationFailed)
    ] == ["newer"]


@pytest.mark.parametrize("on", [1, 2], ids=["left", "joined"])
def test_only_the_current_broker_can_migrate_a_client(on):
    harness = resumed()
    if on == 1:
        harness.do(ev.PublishRequested(1, "F", [b"{}"]))
        harness.receive(wire.Live(6, 11))
    harness.receive(wire.Migrate("third", "three", "other"), on=on)
    assert harness.tried == ["one", "two"] and [
        failure.ticket for failure in harness.sent_of(wire.MigrationFailed, on=on)
    ] == ["other"]


def test_a_client_does_not_migrate_from_an_encrypted_to_an_unencrypted_connection():
    harness = ClientHarness("https://one").open()
    harness.receive(wire.Migrate("second", "http://two", "ticket"))
    assert harness.tried == ["https://one"] and "encrypted" in harness.sent_of(wire.MigrationFailed)[0].reason


def test_a_long_reason_is_cut_to_what_the_protocol_allows():
    harness = migrating()
    harness.cut(reason="x" * 1_000)
    assert len(failures(harness)[0].reason) == 256
