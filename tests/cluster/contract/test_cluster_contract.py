"""The same scripts against the reference data cluster and the real one: on SQLite, on PostgreSQL, and without Spark's
private API."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from cluster_harness import running_cluster
from subjects import RETENTION, Real, Reference, Subject

from tocsin.errors import AlreadyExists, Conflict, NotFound, TypeMismatch, UserError
from tocsin.identity.grants import ANONYMOUS, Policy, Principal, user

_names = count(1)


@pytest.fixture(
    scope="module", params=["reference", "sqlite", "postgres", pytest.param("public api", marks=pytest.mark.slow)]
)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    if request.param == "reference":
        yield Reference()
        return
    postgres = request.param == "postgres"
    catalog = request.getfixturevalue("postgres_server").fresh() if postgres else ""
    runtime = request.getfixturevalue("spark_runtime")
    runtime.private_api = request.param != "public api"
    try:
        with running_cluster(tmp_path_factory.mktemp("data"), runtime, catalog=catalog, retention=RETENTION) as cluster:
            yield Real(cluster)
    finally:
        runtime.private_api = True


@pytest.fixture
def channel(subject: Subject) -> Iterator[str]:
    """A new channel. Brokers ``east`` and ``west`` are registered where nothing listens."""
    name = f"C{next(_names)}"
    subject.create(name)
    for broker in ("east", "west"):
        subject.register(broker)
    yield name
    subject.drop(name)


def report(n: int, kind: str = "fire") -> dict[str, object]:
    return {"n": n, "kind": kind}


def executed(subject: Subject, channel: str, *records: dict[str, object]) -> int:
    subject.publish(f"{channel} {subject.position(channel)} {records}", *records)
    subject.execute(channel)
    return subject.position(channel)


def test_equal_subscriptions_are_one_with_several_brokers(subject, channel):
    (id,) = subject.subscribe(channel, "east", ["fire"])
    assert subject.subscribe(channel, "west", {"kind": "fire"}, ["flood"])[0] == id
    assert subject.subscribe(channel, "east", ["fire"]) == [id]
    assert subject.subscriptions(channel, "east") == [id]
    assert len(subject.subscriptions(channel, "west")) == 2


@pytest.mark.parametrize("args", [[], ["fire", "flood"], {"colour": "red"}, [{}]])
def test_arguments_that_do_not_fit_refuse_the_whole_request(subject, channel, args):
    with pytest.raises(TypeMismatch):
        subject.subscribe(channel, "east", ["fire"], args)
    assert subject.subscriptions(channel, "east") == []


def test_an_error_names_the_kind_of_the_missing_object(subject, channel):
    for call in (
        lambda: subject.subscribe("Nothing", "east", ["fire"]),
        lambda: subject.subscribe(channel, "north", ["fire"]),
        lambda: subject.unsubscribe(channel, 999_999, "east"),
        lambda: subject.pull(channel, 1, "east"),
    ):
        with pytest.raises(NotFound) as caught:
            call()
        assert caught.value.fields["kind"] in ("channel", "broker", "subscription", "execution")


def test_a_subscription_exists_as_long_as_a_broker_has_it(subject, channel):
    (id,) = subject.subscribe(channel, "east", ["fire"])
    subject.subscribe(channel, "west", ["fire"])
    assert subject.unsubscribe(channel, id, "east") == 1
    assert subject.unsubscribe(channel, id, "east") == 0
    assert subject.subscriptions(channel, "west") == [id]
    subject.unsubscribe(channel, id, "west")
    with pytest.raises(NotFound):
        subject.unsubscribe(channel, id, "west")
    assert subject.subscribe(channel, "east", ["fire"]) != [id]


def test_an_execution_brings_each_broker_the_results_of_its_subscriptions(subject, channel):
    (fire,) = subject.subscribe(channel, "east", ["fire"])
    (flood,) = subject.subscribe(channel, "west", ["flood"])
    assert executed(subject, channel, report(1), report(2, "flood")) == 1
    assert subject.pull(channel, 1, "east") == [(fire, [1])]
    assert subject.pull(channel, 1, "west") == [(flood, [2])]
    assert subject.results(channel, fire, 0) == [(1, [1])]


def test_an_execution_without_results_does_not_count(subject, channel):
    subject.subscribe(channel, "east", ["fire"])
    assert executed(subject, channel, report(1, "quake")) == 0
    assert subject.outbox("east") == []


def test_a_subscription_begins_after_the_position_that_it_was_made_at(subject, channel):
    (fire,) = subject.subscribe(channel, "east", ["fire"])
    executed(subject, channel, report(1))
    (flood,) = subject.subscribe(channel, "east", ["flood"])
    assert (subject.begins_after(channel, fire), subject.begins_after(channel, flood)) == (0, 1)


def test_a_publication_with_the_same_key_counts_once(subject, channel):
    (id,) = subject.subscribe(channel, "east", ["fire"])
    records = (report(1), {"n": "one", "kind": "fire"}, report(2))
    assert subject.publish(f"key of {channel}", *records) == (2, [1])
    assert subject.publish(f"key of {channel}", *records) == (2, [1])
    subject.execute(channel)
    assert [sorted(found) for _, found in subject.results(channel, id, 0)] == [[1, 2]]


def test_expired_results_are_a_gap_that_says_where_results_begin(subject, channel):
    (id,) = subject.subscribe(channel, "east", ["fire"])
    executed(subject, channel, report(1))
    subject.expire()
    executed(subject, channel, report(2))
    for call in (lambda: subject.pull(channel, 1, "east"), lambda: subject.results(channel, id, 0)):
        with pytest.raises(NotFound) as caught:
            call()
        assert (caught.value.fields["kind"], caught.value.fields["first"]) == ("execution", 2)
    assert subject.results(channel, id, 1) == [(2, [2])]
    assert subject.outbox("east") == [(channel, 1), (channel, 2)]
    subject.notify("east", 2)


def test_a_channel_that_is_created_again_begins_another_epoch(subject, channel):
    (old,) = subject.subscribe(channel, "east", ["fire"])
    executed(subject, channel, report(1))
    epoch = subject.epoch(channel)
    subject.drop(channel)
    assert subject.outbox("east") == []
    with pytest.raises(NotFound):
        subject.pull(channel, 1, "east")
    subject.create(channel)
    assert subject.epoch(channel) > epoch and subject.position(channel) == 0
    assert subject.subscriptions(channel, "east") == []
    (new,) = subject.subscribe(channel, "east", ["fire"])
    assert new != old
    assert executed(subject, channel, report(2)) == 1
    assert subject.pull(channel, 1, "east") == [(new, [2])]
    assert subject.results(channel, old, 0) == []
    (message,) = subject.notify("east", 1)
    assert (message["channel"], message["execution"], message["epoch"]) == (channel, 1, subject.epoch(channel))


def test_results_of_an_ended_id_belong_to_subscriptions_with_its_arguments(subject, channel):
    (old,) = subject.subscribe(channel, "east", ["fire"])
    executed(subject, channel, report(1))
    subject.unsubscribe(channel, old, "east")
    (new,) = subject.subscribe(channel, "west", ["fire"])
    (other,) = subject.subscribe(channel, "west", ["flood"])
    assert subject.results(channel, old, 0, same_as=new) == [(1, [1])]
    for id, same_as in ((old, other), (old, 999_999), (new, other), (999_999, new)):
        with pytest.raises(NotFound) as caught:
            subject.results(channel, id, 0, same_as=same_as)
        assert caught.value.fields["kind"] == "subscription"


def test_an_id_of_an_earlier_epoch_gives_no_results(subject, channel):
    (old,) = subject.subscribe(channel, "east", ["fire"])
    executed(subject, channel, report(1))
    subject.unsubscribe(channel, old, "east")
    subject.drop(channel)
    subject.create(channel)
    (new,) = subject.subscribe(channel, "east", ["fire"])
    with pytest.raises(NotFound):
        subject.results(channel, old, 0, same_as=new)


def test_a_subscription_changes_its_broker_and_keeps_its_id(subject, channel):
    (id,) = subject.subscribe(channel, "east", ["fire"])
    assert subject.change_broker(channel, id, None, "west") == id
    executed(subject, channel, report(1))
    assert (subject.outbox("east"), subject.outbox("west")) == ([], [(channel, 1)])
    with pytest.raises(Conflict):
        subject.change_broker(channel, id, "east", "west")
    subject.subscribe(channel, "east", ["fire"])
    with pytest.raises(Conflict):
        subject.change_broker(channel, id, None, "west")
    subject.notify("west", 1)


def test_notifications_stay_until_they_are_acknowledged_and_keep_their_order(subject, channel):
    subject.subscribe(channel, "east", ["fire"])
    for n in range(1, 6):
        executed(subject, channel, report(n))
    assert subject.outbox("east") == [(channel, n) for n in range(1, 6)]
    received = subject.notify("east", 5, 503, 409)
    assert [message["execution"] for message in received] == [1, 2, 3, 4, 5]


def test_a_push_channel_sends_results_along(subject, channel):
    pushed = f"{channel}Pushed"
    subject.create(pushed, push=True)
    (id,) = subject.subscribe(pushed, "west", ["fire"])
    executed(subject, pushed, report(7))
    (message,) = subject.notify("west", 1)
    assert [(each["subscription"], each["results"]) for each in message["results"]] == [(id, [{"n": 7}])]
    subject.drop(pushed)


def test_a_name_is_unique_in_any_case(subject, channel):
    with pytest.raises(UserError):
        subject.create(channel.lower())
    assert subject.position(channel.lower()) == subject.position(channel)


# -- grants

ANN = user({"sub": "ann"}, ["nurses"])
OWN = {"kind": ("sub", None)}


def may(subject: Subject, principal: Principal, channel: str, kind: str) -> bool:
    return Policy(subject.grants().grants).refusal(principal, "subscribe", channel, [kind]) is None


def test_a_role_exists_once_and_two_are_built_in(subject):
    subject.create_role("Nurses")
    for name in ("nurses", "anonymous", "USER"):
        with pytest.raises(AlreadyExists):
            subject.create_role(name)
    subject.drop_role("NURSES")
    with pytest.raises(NotFound):
        subject.drop_role("nurses")


def test_a_grant_is_in_force_until_it_is_revoked(subject, channel):
    subject.grant(channel.lower(), "USER", **OWN)
    subject.grant(channel, "user", **OWN)
    assert may(subject, ANN, channel, "ann")
    assert not may(subject, ANN, channel, "bob")
    assert not may(subject, ANONYMOUS, channel, "ann")
    version = subject.grants().version
    subject.revoke(channel, "user", **OWN)
    assert not may(subject, ANN, channel, "ann")
    assert subject.grants().version != version
    with pytest.raises(NotFound):
        subject.revoke(channel, "user", **OWN)


def test_a_revoke_without_conditions_takes_all_grants_on_the_channel_but_not_those_on_all_channels(subject, channel):
    subject.grant(channel, "user", **OWN)
    subject.grant(channel, "user", kind=(None, "fire"))
    subject.grant(None, "anonymous")
    assert may(subject, ANN, channel, "fire")
    subject.revoke(channel, "user")
    assert not [each for each in subject.grants().grants if each.role == "user"]
    assert may(subject, ANN, channel, "fire")
    subject.revoke(None, "anonymous")
    assert not may(subject, ANN, channel, "fire")


def test_grants_end_with_their_channel_and_their_role(subject, channel):
    subject.create_role("nurses")
    subject.grant(channel, "nurses")
    subject.grant(None, "nurses")
    subject.drop(channel)
    assert [each.name for each in subject.grants().grants] == [None]
    assert channel not in subject.grants().channels
    subject.create(channel)
    assert len(subject.grants().grants) == 1 and channel in subject.grants().channels
    subject.drop_role("nurses")
    assert subject.grants().grants == ()


def test_a_grant_of_something_unknown_says_what_it_is(subject, channel):
    for call, kind in (
        (lambda: subject.grant("Nothing", "user"), "channel"),
        (lambda: subject.grant(channel, "doctors"), "role"),
        (lambda: subject.grant(channel, "user", colour=("sub", None)), "parameter"),
        (lambda: subject.revoke(channel, "user"), "grant"),
    ):
        with pytest.raises(NotFound) as caught:
            call()
        assert caught.value.fields["kind"] == kind
    assert subject.grants().grants == ()
