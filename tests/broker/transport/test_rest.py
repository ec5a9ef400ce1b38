"""REST with the papers' names, and Server-Sent Events, on a real broker."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import httpx
import pytest
from broker_lab import Broker, broker
from rest_user import PASSWORD, RestUser, events, rows

from sparkless import sparkless

kinds = (f"rest{n}" for n in itertools.count(1))


@pytest.fixture
def user(served_broker: Broker) -> RestUser:
    return RestUser(served_broker.url)


def test_results_are_returned_until_they_are_acknowledged(cluster, user):
    kind = next(kinds)
    id_ = user.subscribe(kind)
    first = cluster.found("OfKind", ([kind], [{"n": 1}]))
    second = cluster.found("OfKind", ([kind], [{"n": 2}, {"n": 3}]))
    assert rows(user.results(id_, wait=20, after=first)) == [2, 3]
    found = user.results(id_)
    assert rows(found) == [1, 2, 3] and found["after"] == second and found["gaps"] == []
    assert user.post("/ackresults", subscription=id_, execution=first).status_code == 200
    assert rows(user.results(id_)) == [2, 3]
    assert user.post("/ackresults", subscription=id_, execution=second).status_code == 200
    assert rows(user.results(id_)) == []


def test_an_older_acknowledgement_does_not_reset_the_position(cluster, user):
    kind = next(kinds)
    id_ = user.subscribe(kind)
    last = [cluster.found("OfKind", ([kind], [{"n": n}])) for n in range(3)][-1]
    user.post("/ackresults", subscription=id_, execution=last)
    user.post("/ackresults", subscription=id_, execution=last - 2)
    assert rows(user.results(id_)) == []


def test_a_long_poll_ends_when_a_result_arrives(cluster, user):
    kind = next(kinds)
    id_ = user.subscribe(kind)
    with httpx.Client(base_url=user.http.base_url, headers=user.http.headers, timeout=120) as other:
        found: list[Any] = []
        polling = threading.Thread(
            target=lambda: found.append(other.get("/getresults", params={"subscription": id_, "wait": 50}).json())
        )
        polling.start()
        cluster.found("OfKind", ([kind], [{"n": 7}]))
        polling.join()
    assert rows(found[0]) == [7]


def test_a_limit_leaves_the_rest_for_the_next_call(cluster, user):
    kind = next(kinds)
    id_ = user.subscribe(kind)
    for n in range(5):
        cluster.found("OfKind", ([kind], [{"n": n}]))
    first = user.results(id_, limit=2, wait=20)
    rest = user.results(id_, after=first["after"], wait=20)
    while len(rows(first) + rows(rest)) < 5:
        more = user.results(id_, after=rest["after"], wait=20)
        rest = {"results": rest["results"] + more["results"], "after": more["after"]}
    assert rows(first) + rows(rest) == [0, 1, 2, 3, 4]


def test_subscriptions_are_listed_until_they_are_unsubscribed(user):
    kind = next(kinds)
    id_ = user.subscribe(kind)
    assert user.subscribe(kind) == id_
    (held,) = user.http.get("/listsubscriptions").json()["subscriptions"]
    assert (held["subscription"], held["channel"], held["args"]) == (id_, "OfKind", {"kind": kind})
    assert user.post("/unsubscribe", subscription=id_).status_code == 200
    assert user.http.get("/listsubscriptions").json() == {"subscriptions": []}
    assert user.post("/unsubscribe", subscription=id_).status_code == 404


def test_channels_are_listed_with_their_parameters(user):
    found = {each["name"]: each for each in user.http.get("/listchannels").json()["channels"]}
    assert found["OfKind"]["parameters"] == [{"name": "kind", "type": "string"}]


def test_a_logout_invalidates_the_token_and_deletes_the_subscriptions(user):
    id_ = user.subscribe(next(kinds))
    assert user.post("/logout").status_code == 200
    assert user.http.get("/listsubscriptions").status_code == 401
    again = RestUser(str(user.http.base_url), user.name)
    assert again.http.get("/listsubscriptions").json() == {"subscriptions": []}
    assert again.post("/ackresults", subscription=id_, execution=1).status_code == 404


def test_each_device_of_a_user_has_its_own_subscriptions(user):
    user.subscribe(next(kinds))
    laptop = RestUser(str(user.http.base_url), user.name, "laptop")
    assert laptop.http.get("/listsubscriptions").json() == {"subscriptions": []}
    assert len(user.http.get("/listsubscriptions").json()["subscriptions"]) == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/registeruser", {"user": "", "password": PASSWORD}, 400, "bad_request"),
        ("/registeruser", {"user": "a/b", "password": PASSWORD}, 400, "bad_request"),
        ("/registeruser", {"user": "x" * 200, "password": PASSWORD}, 400, "bad_request"),
        ("/registeruser", {"user": "short", "password": "1234567"}, 400, "bad_request"),
        ("/registeruser", {"user": 5, "password": PASSWORD}, 400, "malformed"),
        ("/registeruser", {"user": "more", "password": PASSWORD, "admin": True}, 400, "malformed"),
        ("/login", {"user": "nobody", "password": PASSWORD}, 401, "unauthorized"),
        ("/login", {"user": "nobody", "password": PASSWORD, "device": ""}, 400, "bad_request"),
        ("/subscribe", {"channel": "Nothing"}, 404, "not_found"),
        ("/subscribe", {"channel": "Above", "args": ["x"]}, 400, "type_mismatch"),
        ("/subscribe", {"channel": "Above", "args": []}, 400, "type_mismatch"),
        ("/subscribe", {"channel": "OfKind", "args": 5}, 400, "malformed"),
        ("/subscribe", {"channel": ""}, 400, "malformed"),
        ("/unsubscribe", {"subscription": 999_999}, 404, "not_found"),
        ("/unsubscribe", {"subscription": 0}, 400, "malformed"),
        ("/ackresults", {"subscription": 999_999, "execution": 1}, 404, "not_found"),
        ("/ackresults", {"subscription": 1, "execution": -1}, 400, "malformed"),
        ("/publish", {"feed": "Nothing", "records": [{"n": 1}]}, 404, "not_found"),
        ("/publish", {"feed": "", "records": [{"n": 1}]}, 400, "malformed"),
        ("/publish", {"feed": "LocationFeed", "records": []}, 400, "malformed"),
        ("/publish", {"feed": "LocationFeed", "records": [{}] * 1_001}, 400, "malformed"),
        ("/publish", {"feed": "LocationFeed", "records": {"n": 1}}, 400, "malformed"),
        ("/publish", {"records": [{"n": 1}]}, 400, "malformed"),
        ("/publish", {"feed": "LocationFeed", "records": [{"n": 1}], "key": "k"}, 400, "malformed"),
        ("/nowhere", {}, 404, "no_such_path"),
        ("/notify", {}, 404, "no_such_path"),
    ],
)
def test_an_invalid_request_receives_an_error_with_a_code(user, path, body, status, code):
    answer = user.http.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text


def test_published_records_are_durable_when_they_are_answered(user):
    records = [{"user": "rest", "lat": 1.0, "lon": 2.0}, 5, {"user": None}]
    answer = user.post("/publish", feed="LocationFeed", records=records)
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert found["accepted"] == 3 - len(found["refused"])
    assert {each["index"] for each in found["refused"]} >= {1, 2}
    assert "published_records_total 0.0" not in user.http.get("/metrics").text


def test_nothing_is_published_without_a_token(served_broker):
    answer = httpx.post(f"{served_broker.url}/publish", json={"feed": "LocationFeed", "records": [{}]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")


@pytest.mark.parametrize("query", ["", "subscription=x", "subscription=1&wait=-1", "subscription=1&wait=1e9"])
def test_invalid_queries_for_results_are_refused(user, query):
    answer = user.http.get(f"/getresults?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "malformed"), answer.text


@pytest.mark.parametrize("header", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic YTpi"}])
def test_a_request_without_a_valid_token_is_refused(served_broker, header):
    answer = httpx.get(served_broker.url + "/listsubscriptions", headers=header, timeout=60)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")


def test_a_user_name_can_be_registered_once(user):
    answer = user.post("/registeruser", user=user.name, password="another password")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "already_exists")


def test_a_post_from_another_origin_is_refused(user):
    answer = user.http.post(
        "/login", headers={"origin": "http://evil.example"}, json={"user": user.name, "password": PASSWORD}
    )
    assert answer.status_code == 403


# -- Server-Sent Events ------------------------------------------------------------------------------------------------


def test_an_anonymous_stream_resumes_after_its_last_event(cluster, served_broker):
    kind = next(kinds)
    query = {"channel": "OfKind", "kind": kind}
    with httpx.stream("GET", served_broker.url + "/events", params=query, timeout=120) as stream:
        found = events(stream)
        cluster.found("OfKind", ([kind], [{"n": 1}]))
        mark = next(mark for mark, event, data in found if event == "notify")
    cluster.found("OfKind", ([kind], [{"n": 2}]))
    headers = {"last-event-id": mark}
    with httpx.stream("GET", served_broker.url + "/events", params=query, headers=headers, timeout=120) as stream:
        found = (data for _, event, data in events(stream) if event == "notify")
        assert next(found)["results"] == [{"n": 2}]
        cluster.found("OfKind", ([kind], [{"n": 3}]))
        assert next(found)["results"] == [{"n": 3}]


def test_an_anonymous_stream_that_breaks_before_its_first_event_can_be_resumed(cluster, served_broker):
    kind = next(kinds)
    query = {"channel": "OfKind", "kind": kind}
    with httpx.stream("GET", served_broker.url + "/events", params=query, timeout=120) as stream:
        mark = next(line for line in stream.iter_lines() if line.startswith("id: ")).removeprefix("id: ")
    cluster.found("OfKind", ([kind], [{"n": 1}]))
    headers = {"last-event-id": mark}
    with httpx.stream("GET", served_broker.url + "/events", params=query, headers=headers, timeout=120) as stream:
        assert next(data for _, event, data in events(stream) if event == "notify")["results"] == [{"n": 1}]


def test_a_users_stream_contains_all_of_their_subscriptions(cluster, user):
    one, two = next(kinds), next(kinds)
    ids = {user.subscribe(one): 1, user.subscribe(two): 2}
    cluster.found("OfKind", ([one], [{"n": 1}]), ([two], [{"n": 2}]))
    with user.http.stream("GET", "/events") as stream:
        found = (data for _, event, data in events(stream) if event == "notify")
        got = {data["subscription"]: data["results"] for data in itertools.islice(found, 2)}
    assert got == {id_: [{"n": n}] for id_, n in ids.items()}


@pytest.mark.parametrize("query", ["", "channel=", "channel=Nothing", "channel=OfKind&wrong=1"])
def test_a_stream_without_a_valid_channel_is_an_error(served_broker, query):
    answer = httpx.get(f"{served_broker.url}/events?{query}", timeout=60)
    assert answer.status_code in (400, 404) and "error" in answer.json(), answer.text


def test_an_invalid_last_event_id_is_refused(served_broker):
    where, wrong = f"{served_broker.url}/events?channel=OfKind&kind=x", {"last-event-id": "nonsense"}
    answer = httpx.get(where, headers=wrong, timeout=60)
    assert answer.status_code == 400


# -- a broker that is killed -------------------------------------------------------------------------------------------


def test_an_offline_user_loses_nothing_when_the_broker_is_killed(tmp_path):
    with sparkless(tmp_path / "data") as (cluster, url):
        first = Broker(tmp_path / "b", url)
        first.event("ready")
        user = RestUser(first.url)
        id_ = user.subscribe("fire")
        cluster.found("OfKind", (["fire"], [{"n": 1}]))
        first.kill()
        cluster.found("OfKind", (["fire"], [{"n": 2}]))
        with broker(tmp_path / "b", url, "b", "--port", str(first.port)):
            cluster.found("OfKind", (["fire"], [{"n": 3}]))
            found = user.results(id_, wait=20)
            while len(rows(found)) < 3:
                more = user.results(id_, after=found["after"], wait=20)
                found = {"results": found["results"] + more["results"], "after": more["after"]}
            assert rows(found) == [1, 2, 3]
