"""What a subscriber may do at a broker, by the grants of the data cluster."""

from __future__ import annotations

from typing import Any

import pytest
from broker_harness import BrokerHarness, at, line
from msgspec import Raw

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.config import BrokerLimits
from tocsin.identity.grants import Condition, Grant, GrantTable, user
from tocsin.wire import messages as wire

OWN = Grant("user", "subscribe", "C", (Condition("kind", 0, "sub"),))
ALL = Grant("anonymous", "subscribe", "C")
PUBLISH = Grant("anonymous", "publish", "F")


class Granted(BrokerHarness):
    """A broker that knows these grants; without any, it knows none yet."""

    def __init__(self, *grants: Grant, anonymous: str = "none", **settings: Any) -> None:
        super().__init__(anonymous=anonymous, **settings)
        if grants:
            self.grant(*grants)

    def grant(self, *grants: Grant, channels: tuple[str, ...] = ("C", "D"), open: bool = False) -> None:
        self.handle(ev.GrantsChanged(GrantTable(grants, channels, open)))

    def enter(self, peer: Any, name: str, *roles: str, durable: tuple[wire.DurableSubscription, ...] = ()) -> None:
        self.handle(ev.Opened(peer, "address"))
        self.say(peer, wire.Hello(0, "token"))
        principal = user({"sub": name}, roles)
        self.handle(ev.Authenticated(peer, f"{name}/phone", list(durable), principal=principal))
        self.did(do.Authenticate)
        self.took(peer)


def codes(messages: list[Any]) -> list[str]:
    return [each.code if isinstance(each, wire.Error | wire.Ended) else type(each).__name__ for each in messages]


def test_a_subscription_without_a_grant_is_refused_and_costs_the_data_cluster_nothing() -> None:
    broker = Granted(OWN)
    broker.open("a")
    broker.subscribe("a", "fire")
    (refused,) = broker.took("a")
    assert (refused.code, refused.message) == ("forbidden", "you may not subscribe to channel 'C'")
    assert refused.hint == "missing: GRANT SUBSCRIBE ON CHANNEL C TO one of your roles (anonymous)"
    assert broker.did(do.Subscribe) == []
    assert broker.state.context.sessions["a"].unanswered == 0


def test_a_user_subscribes_with_the_arguments_that_its_grant_allows() -> None:
    broker = Granted(OWN)
    broker.enter("a", "ann")
    broker.subscribe("a", "bob")
    assert codes(broker.took("a")) == ["forbidden"]
    broker.subscribed("a", 7, kind="ann")
    broker.executed(1, 7)
    assert codes(broker.took("a")) == ["Notify"]


def test_an_existing_be_subscription_is_not_shared_with_a_session_without_the_grant() -> None:
    broker = Granted(OWN)
    broker.enter("a", "ann")
    broker.subscribed("a", 7, kind="ann")
    broker.enter("b", "bob")
    broker.subscribe("b", "ann", after=0, previous_id=7)
    assert codes(broker.took("b")) == ["forbidden"]
    broker.executed(1, 7)
    assert broker.took("b") == []


def test_a_publication_without_a_grant_is_refused() -> None:
    broker = Granted(PUBLISH)
    broker.open("a")
    broker.say("a", wire.Publish(1, "G", [Raw(b"{}")]), wire.Publish(2, "f", [Raw(b"{}")]))
    assert codes(broker.took("a")) == ["forbidden"]
    assert [it.feed for it in broker.did(do.Publish)] == ["f"]
    assert broker.state.publications.waiting_bytes == 102


def test_requests_wait_until_the_grants_are_known() -> None:
    broker = Granted()
    broker.open("a", "gone")
    for peer in ("a", "gone"):
        broker.say(peer, wire.Subscribe(1, "C", ["fire"]), wire.Subscribe(2, "D", ["fire"]))
        broker.say(peer, wire.Publish(3, "F", [Raw(b"{}")]), wire.Publish(4, "G", [Raw(b"{}")]))
    broker.close("gone")
    assert broker.took("a") == [] and broker.done == []
    broker.grant(ALL, PUBLISH)
    assert codes(broker.took("a")) == ["forbidden", "forbidden"]
    assert [it.channel for it in broker.did(do.Subscribe)] == ["C"]
    assert [len(it.records) for it in broker.did(do.Publish)] == [1]
    broker.confirm(7)
    broker.handle(ev.Published("F"))
    assert codes(broker.took("a")) == ["Subscribed", "Published"]
    assert broker.state.publications.waiting_bytes == 0


def test_no_more_subscriptions_wait_for_the_grants_than_a_session_may_have() -> None:
    broker = Granted(limits=BrokerLimits(subscriptions=2))
    broker.open("a")
    broker.say("a", *[wire.Subscribe(id, "C", [id]) for id in range(1, 5)])
    assert codes(broker.took("a")) == ["limit_exceeded", "limit_exceeded"]


def test_a_revoke_ends_the_subscriptions_that_are_not_granted_any_more() -> None:
    broker = Granted(ALL, OWN)
    broker.open("a")
    broker.enter("u", "ann")
    broker.subscribed("a", 7, kind="ann")
    broker.subscribed("u", 7, kind="ann")
    broker.did(do.Remember)
    broker.grant(OWN)
    (ended,) = broker.took("a")
    assert (ended.subscription, ended.code) == (7, "forbidden")
    assert ended.message == "you may not subscribe to channel 'C'"
    assert broker.took("u") == []
    broker.executed(1, 7)
    assert (codes(broker.took("a")), codes(broker.took("u"))) == ([], ["Notify"])
    broker.grant()
    assert codes(broker.took("u")) == ["forbidden"]
    assert broker.did(do.Forget) == [do.Forget("ann/phone", 7)]
    broker.executed(2, 7)
    assert broker.took("u") == []
    broker.tick(100.0)
    assert [it.subscriptions for it in broker.did(do.Unsubscribe)] == [[7]]


@pytest.mark.parametrize("name", ["feed:Alarms", "feed:"], ids=["one", "all feeds"])
def test_a_revoke_ends_the_subscriptions_to_a_live_feed(name: str) -> None:
    """Its channel is none of the data cluster's."""
    granted = Grant("anonymous", "subscribe", name)
    broker = Granted(granted, PUBLISH)
    broker.open("a")
    broker.say("a", wire.Subscribe(1, "feed:ALARMS", ["TRUE"]))
    broker.handle(ev.Subscribed("feed:ALARMS", [7], at(5, epoch=1)))
    assert codes(broker.took("a")) == ["Subscribed"]
    broker.grant(granted)
    assert broker.took("a") == []
    broker.grant(PUBLISH)
    assert codes(broker.took("a")) == ["forbidden"]
    broker.handle(ev.Notified("feed:ALARMS", 6, [line(7, 6)], epoch=1))
    assert broker.took("a") == []


def test_a_dropped_feed_ends_as_dropped_although_its_grants_ended_first() -> None:
    broker = Granted(Grant("anonymous", "subscribe", "feed:Alarms"))
    broker.open("a")
    broker.say("a", wire.Subscribe(1, "feed:Alarms", ["TRUE"]))
    broker.handle(ev.Subscribed("feed:Alarms", [7], at(5), (ev.FeedColumn("kind", "string"),)))
    broker.took("a")
    broker.grant(PUBLISH)
    assert broker.took("a") == []
    broker.handle(ev.Dropped("feed:Alarms"))
    assert codes(broker.took("a")) == ["not_found"]


def test_a_revoke_ends_a_subscription_that_is_not_live_yet() -> None:
    broker = Granted(ALL)
    broker.open("a")
    broker.subscribe("a", "fire", after=0)
    broker.confirm(7, position=5)
    assert broker.did(do.Fetch)
    broker.took("a")
    broker.grant()
    assert codes(broker.took("a")) == ["forbidden"]
    assert broker.state.context.sessions["a"].not_live == 0


def test_a_revoke_reaches_a_request_that_the_data_cluster_has_not_answered() -> None:
    broker = Granted(ALL)
    broker.open("a")
    broker.subscribe("a", "fire")
    broker.grant()
    broker.confirm(7)
    assert codes(broker.took("a")) == ["forbidden"]
    assert broker.state.context.sessions["a"].unanswered == 0
    broker.tick(100.0)
    assert [it.subscriptions for it in broker.did(do.Unsubscribe)] == [[7]]


def test_more_grants_change_nothing_for_those_who_are_subscribed() -> None:
    broker = Granted(ALL)
    broker.open("a")
    broker.subscribed("a")
    assert broker.handle(ev.GrantsChanged(GrantTable((ALL, OWN), ("C",)))) == []
    broker.executed(1, 7)
    assert codes(broker.took("a")) == ["Notify"]


def test_a_dropped_channel_ends_as_dropped_although_its_grants_ended_first() -> None:
    broker = Granted(ALL)
    broker.open("a")
    broker.subscribed("a")
    broker.grant(channels=())
    assert broker.took("a") == []
    broker.handle(ev.Dropped("C"))
    assert codes(broker.took("a")) == ["not_found"]


@pytest.mark.parametrize("pending", [False, True])
def test_a_durable_subscription_ends_when_its_user_resumes_it_without_a_grant(pending: bool) -> None:
    broker = Granted(PUBLISH)
    broker.enter("a", "ann", durable=(wire.DurableSubscription(5, "C", ["ann"], 3),))
    assert broker.did(do.Subscribe)
    if not pending:
        broker.confirm(5, position=3)
    broker.subscribe("a", "ann", after=3, previous_id=5)
    assert codes(broker.took("a")) == ["forbidden"]
    assert do.Forget("ann/phone", 5) in broker.did(do.Forget)
    if pending:
        broker.confirm(5, position=3)
    broker.tick(100.0)
    assert [it.subscriptions for it in broker.did(do.Unsubscribe)] == [[5]]


@pytest.mark.parametrize(
    ("anonymous", "open_", "allowed"),
    [("all", False, True), ("none", True, False), ("", True, True), ("", False, False)],
)
def test_the_setting_decides_what_the_openness_of_the_data_cluster_means_here(
    anonymous: str, open_: bool, allowed: bool
) -> None:
    broker = Granted(anonymous=anonymous)
    broker.grant(open=open_)
    broker.open("a")
    broker.subscribe("a")
    assert bool(broker.did(do.Subscribe)) is allowed


def test_closing_an_open_data_cluster_ends_what_no_grant_allows() -> None:
    broker = Granted(anonymous="")
    broker.grant(open=True)
    broker.open("a", "b")
    broker.subscribed("a")
    broker.grant(OWN)
    assert codes(broker.took("a")) == ["forbidden"]


def test_a_new_token_without_the_role_ends_what_only_the_role_allowed() -> None:
    broker = Granted(OWN, Grant("nurses", "subscribe", "C"))
    broker.enter("a", "ann", "nurses")
    broker.subscribed("a", 7, kind="fire")
    broker.subscribed("a", 8, kind="ann")
    broker.say("a", wire.Authenticate("token"))
    broker.did(do.Authenticate)
    broker.handle(ev.Authenticated("a", "ann/phone", [], user({"sub": "ann"})))
    assert [(it.subscription, it.code) for it in broker.took("a")] == [(7, "forbidden")]
    broker.executed(1, 7, 8)
    assert [it.subscription for it in broker.took("a")] == [8]


@pytest.mark.parametrize("token", [False, True])
def test_a_right_that_is_lost_while_the_store_is_asked_confirms_nothing(token: bool) -> None:
    broker = Granted(Grant("nurse", "subscribe", "C"))
    broker.stores = False
    broker.enter("a", "ann", "nurse")
    broker.subscribe("a")
    broker.confirm(7)
    if token:  # another one, without the role
        broker.handle(ev.Authenticated("a", "ann/phone", principal=user({"sub": "ann"})))
    else:
        broker.grant(PUBLISH)
    broker.handle(ev.Stored([ev.Remembered("ann/phone", 7)]))
    assert codes(broker.took("a")) == ["forbidden"]
    assert broker.did(do.Forget) == [do.Forget("ann/phone", 7)]


def test_a_request_is_checked_once_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Any] = []
    holds = Condition.holds

    def counted(self: Condition, given: Any, claims: Any) -> bool:
        checked.append(given)
        return holds(self, given, claims)

    monkeypatch.setattr(Condition, "holds", counted)
    broker = Granted(OWN)
    broker.enter("a", "ann")
    broker.subscribed("a", 7, kind="ann")
    assert checked == [["ann"]]
    broker.grant(OWN, PUBLISH)
    broker.subscribe("a", "ann", id=2)
    assert checked == [["ann"]] * 2
