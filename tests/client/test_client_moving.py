"""The client's state machine: moving to another broker, and every way in which that can fail."""

from __future__ import annotations

import pytest
from rig import Rig, notify

from tocsin.client.core import events as ev
from tocsin.client.core.state import LINGER, MOVE
from tocsin.errors import NotFound, Uncertain
from tocsin.wire import close_codes
from tocsin.wire import messages as wire

TWO = wire.Migrate("second", "two", "ticket")


def moving(**options: object) -> Rig:
    """Subscribed on connection 1 up to execution 11, and told to move; connection 2 is being made."""
    rig = Rig(**options).open()
    rig.subscribed()
    rig.hear(notify(11), TWO)
    assert (rig.connection, rig.tried) == (2, ["one", "two"])
    return rig


def greeted(**options: object) -> Rig:
    rig = moving(**options)
    rig.connect()
    return rig


def welcomed(**options: object) -> Rig:
    rig = greeted(**options)
    rig.welcome(broker="second")
    return rig


def resumed(after: int = 11, **options: object) -> Rig:
    rig = welcomed(**options)
    (asked,) = rig.said(wire.Subscribe)
    rig.hear(wire.Subscribed(asked.id, 6, "C", after))
    return rig


def moved(**options: object) -> Rig:
    rig = resumed(**options)
    rig.hear(wire.Live(6, 11))
    assert rig.state.current.number == 2
    return rig


def stays(rig: Rig) -> list[wire.MigrationFailed]:
    return rig.said(wire.MigrationFailed, on=1)


# -- what goes well ------------------------------------------------------------------------------------------------


def test_it_says_who_it_is_with_the_ticket_and_resumes_in_one_frame():
    rig = greeted(token="t")
    (frame,) = rig.frames
    hello, resume = frame
    assert (hello.token, hello.subscriber, hello.ticket) == ("t", rig.state.subscriber, "ticket")
    assert resume == wire.Subscribe(resume.id, "C", [], 11, 5)


def test_every_hello_has_the_same_subscriber_and_a_ticket_is_used_once():
    rig = moved()
    rig.cut()
    rig.come_back()
    assert rig.tried == ["one", "two", "two"]
    hellos = [hello for number in (1, 2, 3) for hello in rig.said(wire.Hello, on=number)]
    assert [hello.subscriber for hello in hellos] == [rig.state.subscriber] * 3
    assert [hello.ticket for hello in hellos] == [None, "ticket", None]


def test_a_subscriber_is_22_letters_by_chance_or_given():
    assert len(Rig().state.subscriber) == 22 and Rig().state.subscriber == Rig().state.subscriber
    assert Rig(subscriber="somebody").state.subscriber == "somebody"


def test_when_all_is_live_the_old_connection_is_closed_politely():
    rig = resumed()
    did = rig.hear(wire.Live(6, 11))
    assert ev.Close(1, close_codes.NORMAL.code) in did and rig.state.links == [rig.state.current]
    status = rig.state.status
    assert (status.url, status.broker, status.moves, status.state) == ("two", "second", 1, "connected")
    assert stays(rig) == []


def test_without_subscriptions_the_welcome_is_enough():
    rig = Rig().open()
    rig.hear(TWO)
    rig.connect()
    assert ev.Close(1, 1000) in rig.welcome(broker="second")


def test_all_subscriptions_have_to_be_live():
    rig = Rig().open()
    rig.subscribed()
    rig.subscribed(7, handle=2, channel="D")
    rig.hear(TWO)
    rig.connect()
    rig.welcome(broker="second")
    for number, asked in enumerate(rig.said(wire.Subscribe), 20):
        rig.hear(wire.Subscribed(asked.id, number, asked.channel, 10))
    rig.hear(wire.Live(20, 10))
    assert rig.state.current.number == 1
    rig.hear(wire.Live(21, 10))
    assert rig.state.current.number == 2


def test_both_connections_deliver_and_each_notification_comes_once():
    rig = resumed()
    rig.hear(notify(12), on=1)
    rig.hear(notify(12, 6), notify(13, 6))
    rig.hear(notify(13), notify(14), on=1)
    rig.hear(notify(14, 6), wire.Live(6, 14), notify(15, 6))
    assert rig.got() == [11, 12, 13, 14, 15] and rig.state.status.duplicates == 3


def test_a_broker_that_is_slower_than_the_one_before_makes_nothing_twice():
    rig = resumed(after=9)
    rig.hear(notify(10, 6), notify(11, 6), notify(12, 6), wire.Live(6, 12))
    assert rig.got() == [11, 12]


def test_the_number_of_the_new_broker_counts_once_it_has_taken_over():
    rig = resumed()
    entry = rig.state.subscriptions.entries[1]
    assert (entry.known, entry.number) == (5, 5)
    rig.hear(wire.Live(6, 11))
    assert (entry.known, entry.number) == (6, 6)


def test_pings_are_answered_and_acks_go_to_both():
    rig = resumed(token="t")
    rig.hear(wire.Ping({"C": 11}))
    rig.hear(wire.Ping({"C": 11}), on=1)
    rig.now += 1
    rig.do(ev.Consumed(1, 11))
    assert len(rig.said(wire.Pong)) == len(rig.said(wire.Pong, on=1)) == 1
    assert rig.said(wire.Ack, on=1)[-1].positions == {5: 11} and rig.said(wire.Ack)[-1].positions == {6: 11}


def test_an_application_that_has_enough_stops_both_and_keeps_no_move_waiting():
    rig = Rig().open()
    rig.subscribed(max_pending=1)
    rig.hear(TWO)
    rig.connect()
    rig.welcome(broker="second")
    rig.hear(notify(11), on=1)
    assert (rig.lines[1].reading, rig.reading) == (False, True), "the new one has answers to come"
    (asked,) = rig.said(wire.Subscribe)
    did = rig.hear(wire.Subscribed(asked.id, 6, "C", 10))
    assert ev.Close(1, 1000) in did and not rig.reading
    rig.do(ev.Consumed(1, 11))
    rig.hear(notify(11, 6), notify(12, 6))
    assert rig.got() == [11, 12]


def test_after_moving_the_new_address_is_tried_first_and_then_the_others():
    rig = moved()
    for _ in range(3):
        rig.cut()
        rig.tick()
    assert rig.tried == ["one", "two", "two", "one", "two"]


def test_it_moves_again_and_again():
    rig = moved()
    rig.hear(wire.Migrate("third", "three", "next"))
    rig.connect()
    rig.welcome(broker="third")
    (asked,) = rig.said(wire.Subscribe)
    assert asked.subscription == 6
    rig.hear(wire.Subscribed(asked.id, 7, "C", 11), wire.Live(7, 11))
    assert rig.state.status.moves == 2 and rig.state.status.broker == "third"


# -- requests ------------------------------------------------------------------------------------------------------


def test_a_publication_stays_where_it_was_sent_until_it_is_answered():
    rig = resumed()
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    (sent,) = rig.said(wire.Publish, on=1)
    assert ev.Close(1, 1000) not in rig.hear(wire.Live(6, 11))
    rig.do(ev.WantPublish(2, "F", [b"{}"]))
    assert len(rig.said(wire.Publish)) == 1, "what is new goes to the new one"
    did = rig.hear(wire.Published(sent.id, 1), on=1)
    assert [each.request for each in did if isinstance(each, ev.Resolve)] == [1] and ev.Close(1, 1000) in did


def test_the_rest_of_a_publication_goes_on_at_the_new_broker():
    rig = resumed()
    rig.do(ev.WantPublish(1, "F", [b"{}"] * 1_500))
    (sent,) = rig.said(wire.Publish, on=1)
    rig.hear(wire.Live(6, 11))
    rig.hear(wire.Published(sent.id, 1_000), on=1)
    (rest,) = rig.said(wire.Publish)
    rig.hear(wire.Published(rest.id, 500))
    assert rig.did(ev.Resolve)[0].receipt.taken == 1_500


def test_a_broker_that_never_answers_is_left_after_a_while():
    rig = resumed()
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    rig.do(ev.WantPublish(2, "F", [b"{}"], retry=True))
    rig.hear(wire.Live(6, 11))
    start = rig.now
    while len(rig.state.links) == 2:
        rig.tick()
    assert rig.now == start + LINGER and ev.Close(1, 1000) in rig.done
    assert isinstance(rig.did(ev.Reject)[0].error, Uncertain)
    assert len(rig.said(wire.Publish)) == 1, "what does no harm twice is sent again"


def test_one_that_is_subscribed_meanwhile_is_asked_for_where_the_client_is_and_then_resumed():
    rig = resumed()
    rig.do(ev.WantSubscribe(2, "D", []))
    asked = rig.said(wire.Subscribe, on=1)[-1]
    assert asked.channel == "D" and len(rig.said(wire.Subscribe)) == 1
    rig.hear(wire.Subscribed(asked.id, 8, "D", 30), on=1)
    again = rig.said(wire.Subscribe)[-1]
    assert (again.channel, again.after, again.subscription) == ("D", 30, 8)
    rig.hear(wire.Live(6, 11))
    assert rig.state.current.number == 1, "it is not live there yet"
    rig.hear(wire.Subscribed(again.id, 9, "D", 30), wire.Live(9, 30))
    assert rig.state.current.number == 2


def test_one_that_waits_for_its_answer_does_not_hold_the_move_up():
    rig = resumed()
    rig.do(ev.WantSubscribe(2, "D", []))
    asked = rig.said(wire.Subscribe, on=1)[-1]
    assert ev.Close(1, 1000) not in rig.hear(wire.Live(6, 11))
    did = rig.hear(wire.Subscribed(asked.id, 8, "D", 30), on=1)
    assert ev.Confirmed(2) in did and ev.Close(1, 1000) in did
    assert (rig.said(wire.Subscribe)[-1].after, rig.said(wire.Subscribe)[-1].subscription) == (30, 8)


@pytest.mark.parametrize("cut", [True, False], ids=["broken", "too long"])
def test_one_that_got_no_answer_is_asked_for_at_the_new_broker(cut):
    rig = resumed()
    rig.do(ev.WantSubscribe(2, "D", []))
    rig.hear(wire.Live(6, 11))
    if cut:
        rig.cut(on=1)
    while len(rig.state.links) == 2:
        rig.tick()
    asked = rig.said(wire.Subscribe)[-1]
    assert (asked.channel, asked.after) == ("D", None)


def test_one_that_two_brokers_were_asked_for_loses_nothing_between_them():
    rig = resumed()
    rig.do(ev.WantSubscribe(2, "D", []))
    first = rig.said(wire.Subscribe, on=1)[-1]
    rig.hear(wire.Live(6, 11))
    rig.cut()
    rig.come_back()
    second = rig.said(wire.Subscribe)[-1]
    assert (second.channel, second.after) == ("D", None)
    rig.hear(wire.Subscribed(first.id, 8, "D", 30), on=1)
    rig.hear(wire.Subscribed(second.id, 9, "D", 32), notify(33, 9, "D"))
    again = rig.said(wire.Subscribe)[-1]
    assert (again.after, again.subscription, rig.got(2)) == (30, 8, [])


def test_a_refusal_of_the_old_broker_still_counts():
    rig = resumed()
    rig.do(ev.WantSubscribe(2, "Nowhere", []))
    asked = rig.said(wire.Subscribe, on=1)[-1]
    rig.hear(wire.Live(6, 11))
    rig.hear(wire.Error(asked.id, "not_found", "no"), on=1)
    (ended,) = rig.did(ev.Ended)
    assert ended.handle == 2 and isinstance(ended.error, NotFound)


@pytest.mark.parametrize("drain", [True, False])
def test_one_that_leaves_meanwhile_leaves_both(drain):
    rig = resumed()
    rig.do(ev.WantUnsubscribe(1, drain))
    (old,), (new,) = rig.said(wire.Unsubscribe, on=1), rig.said(wire.Unsubscribe)
    assert (old.subscription, new.subscription) == (5, 6)
    rig.hear(notify(12, 6), wire.Unsubscribed(new.id, 6))
    assert rig.state.current.number == 2 and ev.Left(1) not in rig.done
    rig.hear(notify(12), wire.Unsubscribed(old.id, 5), on=1)
    assert ev.Left(1) in rig.done and rig.got() == ([11, 12] if drain else [11]) and len(rig.state.links) == 1


def test_one_that_leaves_before_the_new_broker_has_answered_leaves_it_with_the_answer():
    rig = welcomed()
    (asked,) = rig.said(wire.Subscribe)
    rig.do(ev.WantUnsubscribe(1))
    rig.hear(wire.Subscribed(asked.id, 6, "C", 11))
    assert [each.subscription for each in rig.said(wire.Unsubscribe)] == [6]


@pytest.mark.parametrize("token", [None, "t"])
def test_a_goodbye_that_the_old_broker_did_not_answer(token):
    rig = resumed(token=token)
    rig.do(ev.WantUnsubscribe(1))
    (mirrored,) = rig.said(wire.Unsubscribe)
    rig.hear(wire.Unsubscribed(mirrored.id, 6))
    rig.cut(on=1)
    if token is None:
        assert ev.Left(1) in rig.done
    else:
        said = rig.said(wire.Unsubscribe)[-1]
        assert said.subscription == 5 and ev.Left(1) not in rig.done
        rig.hear(wire.Error(said.id, "not_found", "no"))
        assert ev.Left(1) in rig.done


# -- what fails ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [moving, greeted, welcomed, resumed])
@pytest.mark.parametrize("code", [None, *sorted(close_codes.CLOSES)])
def test_however_the_new_connection_ends_it_stays_where_it_is(step, code):
    rig = step(token="t")
    rig.cut(code, "why")
    assert stays(rig) == [wire.MigrationFailed("ticket", "why")]
    rig.hear(notify(12), on=1)
    assert rig.got() == [11, 12]
    assert (rig.state.status.state, rig.state.status.url, rig.state.status.moves) == ("connected", "one", 0)
    assert rig.state.links == [rig.state.current] and rig.tried == ["one", "two"]


@pytest.mark.parametrize("step", [moving, greeted, welcomed, resumed])
def test_a_move_takes_no_longer_than_its_time(step):
    rig = step()
    start = rig.now
    while rig.state.joining is not None:
        rig.hear(wire.Pong(), on=1)
        rig.tick()
    assert rig.now - start <= MOVE and len(stays(rig)) == 1
    assert not rig.line.open and rig.state.current.number == 1


@pytest.mark.parametrize(
    "trouble",
    [
        lambda id: wire.Error(id, "busy", "not now"),
        lambda id: wire.Error(id, "not_found", "there is no channel 'C'"),
    ],
    ids=["busy", "not found"],
)
def test_a_resume_that_the_new_broker_refuses_ends_the_move_and_nothing_else(trouble):
    rig = welcomed()
    (asked,) = rig.said(wire.Subscribe)
    did = rig.hear(trouble(asked.id), wire.Live(6, 20))
    assert ev.Close(2, 1000) in did and len(stays(rig)) == 1 and rig.did(ev.Ended) == []


def test_what_the_new_broker_does_not_have_any_more_may_still_come_from_the_old_one():
    rig = resumed()
    did = rig.hear(wire.Gap(6, 11, 14, "retention"), notify(14, 6), wire.Live(6, 14))
    assert ev.Close(2, 1000) in did and "12 to 13" in stays(rig)[0].reason
    rig.hear(notify(12), notify(14), on=1)
    assert rig.got() == [11, 12, 14] and rig.state.status.gaps == 0


@pytest.mark.parametrize("live", [True, False])
def test_who_stayed_for_it_once_goes_the_next_time_and_says_what_was_passed_over(live):
    """It is up to date at the old broker, and has not heard from it for longer than results are kept."""
    rig = resumed()
    rig.hear(wire.Gap(6, 11, 14, "retention"))
    if not live:
        rig.hear(wire.Lagging(5, 11), on=1)
    rig.hear(TWO, on=1)
    rig.connect()
    rig.welcome(broker="second")
    (asked,) = rig.said(wire.Subscribe)
    assert asked.after == 11
    rig.hear(wire.Subscribed(asked.id, 6, "C", 11), wire.Gap(6, 11, 16, "retention"), notify(17, 6), wire.Live(6, 17))
    assert rig.state.current.number == (3 if live else 1)
    assert rig.state.status.gaps == (1 if live else 0)
    assert rig.got() == ([11, 17] if live else [11])


def test_what_the_old_broker_holds_was_not_released():
    rig = resumed()
    rig.hear(notify(12, 6), wire.Gap(6, 12, 14, "released"), notify(14, 6), wire.Live(6, 14))
    assert rig.state.current.number == 2 and rig.state.status.gaps == 0 and rig.got() == [11, 12, 14]


def test_what_the_old_broker_has_under_a_new_number_itself_may_have_been_released():
    rig = Rig().open()
    rig.subscribed()
    rig.cut()
    rig.come_back()
    rig.hear(wire.Subscribed(rig.said(wire.Subscribe)[0].id, 7, "C", 10), TWO)
    rig.connect()
    rig.welcome(broker="second")
    (asked,) = rig.said(wire.Subscribe)
    assert asked.subscription == 5
    rig.hear(wire.Live(7, 11), on=2)
    rig.hear(wire.Subscribed(asked.id, 6, "C", 10), wire.Gap(6, 10, 14, "released"))
    assert rig.state.current.number == 2 and "released" in rig.said(wire.MigrationFailed, on=2)[0].reason


def test_a_hole_before_what_it_has_is_none():
    rig = resumed()
    rig.hear(notify(14), on=1)
    rig.hear(wire.Gap(6, 11, 14, "retention"), notify(14, 6), wire.Live(6, 14))
    assert rig.state.current.number == 2 and rig.state.status.gaps == 0


def test_a_channel_that_ends_at_the_new_broker_ends_at_the_old_one_or_not_at_all():
    rig = resumed()
    rig.hear(wire.Ended(6, "not_found", "dropped"))
    assert len(stays(rig)) == 1 and rig.did(ev.Ended) == []
    rig.hear(wire.Ended(5, "not_found", "dropped"), on=1)
    assert len(rig.did(ev.Ended)) == 1


def test_after_a_move_that_failed_a_break_goes_the_ordinary_way_with_the_number_of_the_old_broker():
    rig = resumed()
    rig.hear(notify(12, 6))
    rig.cut()
    rig.cut(on=1)
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    assert (rig.tried, asked.after, asked.subscription) == (["one", "two", "one"], 12, 5)


# -- when the old one breaks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [None, 1001, close_codes.MIGRATED.code, close_codes.REPLACED.code])
@pytest.mark.parametrize("step", [welcomed, resumed])
def test_one_that_is_welcomed_takes_over_at_once(step, code):
    rig = step()
    did = rig.cut(code, on=1)
    assert rig.state.current.number == 2 and rig.state.status.state == "connected"
    assert not [each for each in did if isinstance(each, ev.Connect | ev.Stopped)]
    assert len(rig.said(wire.Subscribe)) == 1, "it has been asked for"


def test_what_was_under_way_when_the_old_one_broke_goes_to_the_new_one():
    rig = welcomed()
    rig.do(ev.WantSubscribe(2, "D", []))
    rig.do(ev.WantPublish(1, "F", [b"{}"], retry=True))
    rig.cut(on=1)
    assert rig.said(wire.Subscribe)[-1].channel == "D" and len(rig.said(wire.Publish)) == 1


@pytest.mark.parametrize("step", [moving, greeted])
def test_one_that_is_not_welcomed_does_not(step):
    rig = step()
    did = rig.cut(on=1)
    assert [each.connection for each in did if isinstance(each, ev.Close)] == [2]
    assert rig.state.status.state == "waiting" and rig.state.links == []
    rig.come_back()
    assert rig.tried == ["one", "two", "one"]


def test_a_new_broker_that_breaks_after_taking_over_is_a_break_like_any_other():
    rig = resumed()
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    (sent,) = rig.said(wire.Publish, on=1)
    rig.hear(wire.Live(6, 11))
    rig.cut()
    rig.hear(notify(12), on=1)
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    assert asked.after == 12 and len(rig.state.links) == 2
    assert ev.Close(1, 1000) in rig.hear(wire.Published(sent.id, 1), on=1)


def test_closing_closes_both():
    rig = resumed()
    did = rig.do(ev.WantClose())
    assert {each.connection for each in did if isinstance(each, ev.Close)} == {1, 2}
    assert rig.did(ev.Ended) == [ev.Ended(1)] and rig.did(ev.Stopped) == [ev.Stopped()]


# -- moves that are not followed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [moving, greeted, welcomed, resumed])
def test_the_newest_of_two_moves_wins(step):
    rig = step()
    did = rig.hear(wire.Migrate("third", "three", "newer"), on=1)
    assert [each.connection for each in did if isinstance(each, ev.Close)] == [2] and rig.tried[-1] == "three"
    assert [stay.ticket for stay in stays(rig)] == ["ticket"] and len(rig.state.links) == 2


def test_the_same_move_told_twice_is_one():
    rig = greeted()
    rig.hear(TWO, on=1)
    assert rig.tried == ["one", "two"] and stays(rig) == []


def test_it_does_not_move_to_where_it_is():
    rig = Rig().open()
    rig.hear(wire.Migrate("b", "one", "ticket"))
    assert rig.tried == ["one"] and rig.said(wire.MigrationFailed)[0].ticket == "ticket"


def test_while_it_leaves_one_broker_it_does_not_move_on():
    rig = resumed()
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    rig.hear(wire.Live(6, 11))
    rig.hear(wire.Migrate("third", "three", "newer"))
    assert rig.tried == ["one", "two"] and [stay.ticket for stay in rig.said(wire.MigrationFailed)] == ["newer"]


@pytest.mark.parametrize("on", [1, 2], ids=["left", "joined"])
def test_only_the_broker_where_it_is_can_move_it(on):
    rig = resumed()
    if on == 1:
        rig.do(ev.WantPublish(1, "F", [b"{}"]))
        rig.hear(wire.Live(6, 11))
    rig.hear(wire.Migrate("third", "three", "other"), on=on)
    assert rig.tried == ["one", "two"] and [stay.ticket for stay in rig.said(wire.MigrationFailed, on=on)] == ["other"]


def test_it_does_not_go_from_an_encrypted_connection_to_an_open_one():
    rig = Rig("https://one").open()
    rig.hear(wire.Migrate("second", "http://two", "ticket"))
    assert rig.tried == ["https://one"] and "encrypted" in rig.said(wire.MigrationFailed)[0].reason


def test_a_long_reason_is_cut_to_what_the_protocol_takes():
    rig = moving()
    rig.cut(reason="x" * 1_000)
    assert len(stays(rig)[0].reason) == 256
