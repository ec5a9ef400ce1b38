"""Routing by content: the worked example of figure 2.2, covering, unsubscription, and what clients may not do."""

from __future__ import annotations

import pytest
from overlays import FEED, advertise, bodies, condition, overlay, publish, subscribe, table

from tocsin.content import Advertisement
from tocsin.errors import Conflict, NotFound, TypeMismatch, UserError
from tocsin.overlay.content import events as ev
from tocsin.overlay.content import messages as ms
from tocsin.overlay.content.instructions import Attached, Published, Refused


@pytest.fixture
def figure():
    """Figure 2.2: the publisher is at B1, sub1 at B4, sub2 at B3, and B2 is between them."""
    return overlay("B2 B1", "B3 B2", "B4 B2")


# -- figure 2.2, step by step


def test_step_1_floods_the_advertisement_to_all_brokers(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    tables = {name: table(router, "advertisements") for name, router in figure.routers.items()}
    assert tables == {
        "B1": {("publisher", "a > 1")},
        "B2": {("B1", "a > 1")},
        "B3": {("B2", "a > 1")},
        "B4": {("B2", "a > 1")},
    }


def test_step_1_sends_subscribers_nothing(figure):
    subscribe(figure, "B4", "sub1", "a > 5")
    advertise(figure, "B1", "publisher", "a > 1")
    assert [each for _, each in figure.done if not isinstance(each, Attached)] == []


def test_step_2_sends_the_subscription_along_the_reverse_path(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    subscribe(figure, "B4", "sub1", "a > 5")
    tables = {name: table(router) for name, router in figure.routers.items()}
    assert tables == {"B1": {("B2", "a > 5")}, "B2": {("B4", "a > 5")}, "B3": set(), "B4": {("sub1", "a > 5")}}


def test_step_3_stops_the_covered_subscription_at_b2(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    subscribe(figure, "B4", "sub1", "a > 5")
    subscribe(figure, "B3", "sub2", "a > 9")
    tables = {name: table(router) for name, router in figure.routers.items()}
    assert tables == {
        "B1": {("B2", "a > 5")},
        "B2": {("B4", "a > 5"), ("B3", "a > 9")},
        "B3": {("sub2", "a > 9")},
        "B4": {("sub1", "a > 5")},
    }


def test_step_4_delivers_publications_by_the_tables(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    subscribe(figure, "B4", "sub1", "a > 5")
    subscribe(figure, "B3", "sub2", "a > 9")
    for a in (3, 7, 10):
        publish(figure, "B1", "publisher", a=a)
    assert sorted(figure.delivered, key=str) == [("sub1", {"a": 10}), ("sub1", {"a": 7}), ("sub2", {"a": 10})]
    hops = [(source, target, body.values["a"]) for source, target, body in figure.sent if hasattr(body, "values")]
    assert sorted(hops) == [("B1", "B2", 7), ("B1", "B2", 10), ("B2", "B3", 10), ("B2", "B4", 7), ("B2", "B4", 10)]


def test_an_unsubscription_forwards_the_covered_subscription_first(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    subscribe(figure, "B4", "sub1", "a > 5")
    subscribe(figure, "B3", "sub2", "a > 9")
    figure.sent.clear()
    figure.event("B4", ev.Withdraw("sub1", "sub1"))
    towards = [body for source, target, body in figure.sent if (source, target) == ("B2", "B1")]
    assert [type(each) for each in towards] == [ms.Subscribe, ms.Unsubscribe]
    assert towards[0].condition.to_sql() == "a > 9"
    assert table(figure.routers["B1"]) == {("B2", "a > 9")}
    assert table(figure.routers["B4"]) == set()


# -- paths


def test_a_subscription_that_intersects_no_advertisement_stays_where_it_is(figure):
    advertise(figure, "B1", "publisher", "a < 5")
    subscribe(figure, "B4", "sub1", "a > 5")
    assert [table(figure.routers[name]) for name in ("B1", "B2")] == [set(), set()]


def test_a_subscription_from_before_the_advertisement_follows_it(figure):
    subscribe(figure, "B4", "sub1", "a > 5")
    advertise(figure, "B1", "publisher", "a > 1")
    assert table(figure.routers["B1"]) == {("B2", "a > 5")}


def test_an_unadvertisement_withdraws_the_subscriptions_that_only_it_attracted(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    advertise(figure, "B1", "other", "a > 100")
    subscribe(figure, "B4", "sub1", "a > 5 AND a < 50")
    subscribe(figure, "B4", "sub2", "a > 200")
    figure.event("B1", ev.Withdraw("publisher", "publisher"))
    assert table(figure.routers["B1"]) == {("B2", "a > 200")}
    assert table(figure.routers["B3"], "advertisements") == {("B2", "a > 100")}


def test_a_covered_advertisement_is_not_forwarded_until_the_covering_one_is_gone(figure):
    advertise(figure, "B1", "wide", "a > 1")
    advertise(figure, "B1", "narrow", "a > 100")
    assert table(figure.routers["B4"], "advertisements") == {("B2", "a > 1")}
    figure.sent.clear()
    figure.event("B1", ev.Withdraw("wide", "wide"))
    assert [type(each) for _, target, each in figure.sent if target == "B2"] == [ms.Advertise, ms.Unadvertise]
    assert table(figure.routers["B4"], "advertisements") == {("B2", "a > 100")}


def test_a_wider_subscription_replaces_those_it_covers_at_the_next_broker(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    subscribe(figure, "B3", "sub2", "a > 9")
    subscribe(figure, "B4", "sub1", "a > 5")
    assert table(figure.routers["B1"]) == {("B2", "a > 5")}


def test_equal_subscriptions_are_forwarded_once_and_stay_until_the_last_ends(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    subscribe(figure, "B4", "one", "a > 5")
    subscribe(figure, "B4", "two", "5 < a")
    assert len(bodies(figure, ms.Subscribe, source="B4")) == 1
    figure.event("B4", ev.Detach("one"))
    assert bodies(figure, ms.Unsubscribe) == []
    figure.event("B4", ev.Detach("two"))
    assert table(figure.routers["B1"]) == set()


def test_a_disconnect_withdraws_all_that_a_client_announced(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    subscribe(figure, "B4", "sub", "a > 5", "wide")
    subscribe(figure, "B4", "sub", "a > 9", "narrow")
    figure.sent.clear()
    figure.event("B4", ev.Detach("sub"))
    assert bodies(figure, ms.Subscribe) == []
    assert len(bodies(figure, ms.Unsubscribe, source="B4")) == 1
    figure.event("B1", ev.Detach("publisher"))
    assert all(not router.routing.spaces for router in figure.routers.values())


def test_a_publication_goes_over_a_link_and_to_a_client_once_whatever_matches(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    subscribe(figure, "B4", "sub", "a > 5", "one")
    subscribe(figure, "B4", "sub", "a < 50", "two")
    publish(figure, "B1", "publisher", a=20)
    assert len(bodies(figure, ms.Publication, source="B2")) == 1
    assert figure.done[-1][1].subscriptions == ("one", "two")


def test_a_publisher_receives_nothing_and_local_subscribers_receive_at_once(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    subscribe(figure, "B1", "near", "a > 5")
    publish(figure, "B1", "publisher", a=20)
    assert figure.delivered == [("near", {"a": 20})]
    assert bodies(figure, ms.Publication) == []


def test_feeds_with_other_types_have_nothing_in_common(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    figure.event("B4", ev.Attach("sub", "subscriber"))
    text = Advertisement.of_padres("[a,>,1]")
    figure.event("B4", ev.SubscribeFeed("sub", "sub", FEED, text.condition))
    publish(figure, "B1", "publisher", a=20)
    assert figure.delivered == []


def test_publications_have_ids_in_the_order_of_their_head(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    done = [publish(figure, "B1", "publisher", a=2)[0] for _ in range(2)]
    assert [each.id for each in done] == [("B1", 1, 1), ("B1", 1, 2)]


# -- bad input


@pytest.mark.parametrize(
    ("event", "error", "message"),
    [
        (ev.Publish("publisher", "publisher", {"a": 0}), UserError, "not one that its publisher advertised"),
        (ev.Publish("publisher", "publisher", {"a": "x"}), TypeMismatch, "a:"),
        (ev.Publish("publisher", "publisher", {"c": 1}), UserError, "no attribute 'c'"),
        (ev.Publish("publisher", "another", {"a": 2}), NotFound, "advertisement"),
        (ev.Publish("stranger", "publisher", {"a": 2}), NotFound, "client"),
        (ev.Withdraw("publisher", "another"), NotFound, "another"),
        (ev.Detach("stranger"), NotFound, "stranger"),
        (ev.Attach("publisher", "publisher"), Conflict, "attached already"),
        (ev.AdvertiseFeed("publisher", "publisher", FEED, Advertisement(condition("a > 1"))), Conflict, "already"),
        (ev.SubscribeFeed("publisher", "s", FEED, condition("a > 1")), Conflict, "is a publisher"),
        (ev.SubscribeFeed("stranger", "s", FEED, condition("a > 1")), NotFound, "stranger"),
    ],
)
def test_a_wrong_command_is_refused_and_changes_nothing(figure, event, error, message):
    advertise(figure, "B1", "publisher", "a > 1")
    subscribe(figure, "B4", "sub", "a > 1")
    figure.sent.clear()
    (refused,) = figure.event("B1", event)
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, error)
    assert message in refused.error.message
    assert refused.error.hint or isinstance(refused.error, TypeMismatch)
    assert figure.sent == []
    assert table(figure.routers["B1"], "advertisements") == {("publisher", "a > 1")}
    assert isinstance(publish(figure, "B1", "publisher", a=2)[0], Published)
    assert figure.delivered == [("sub", {"a": 2})]


def test_a_condition_that_is_never_true_is_accepted_and_not_forwarded(figure):
    advertise(figure, "B1", "publisher", "a > 1")
    subscribe(figure, "B4", "sub", "a > 5 AND a < 5")
    assert table(figure.routers["B2"]) == set()
    figure.event("B4", ev.Detach("sub"))
    assert table(figure.routers["B4"]) == set()
