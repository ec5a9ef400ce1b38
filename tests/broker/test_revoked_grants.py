"""Who may do what, with real processes: a data cluster and a broker that anonymous may not use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from broker_lab import Broker, Speaker, broker
from rest_user import RestUser, events

from eventually import eventually
from served import Process
from sparkless import Sparkless
from tocsin.client import Forbidden, sync

SETUP = """
CREATE ACTIVE DATASET Messages (user string, text string);
CREATE FEED MessageFeed; CONNECT FEED MessageFeed TO DATASET Messages; START FEED MessageFeed;
CREATE CONTINUOUS CHANNEL MessagesFor(user string) {
  SELECT m.text FROM Messages m WHERE is_new(m) AND m.user = user
};
CREATE CONTINUOUS CHANNEL Everything() { SELECT m.text FROM Messages m WHERE is_new(m) };
GRANT PUBLISH ON FEED MessageFeed TO user;
"""
OWN = "SUBSCRIBE ON CHANNEL MessagesFor WITH (user = claim('sub'))"


SECRET = "open sesame"
JOIN = {"TOCSIN_JOIN_SECRET": SECRET}


class Network:
    def __init__(self, cluster: str, token: str, broker: Broker) -> None:
        self.cluster, self.broker = cluster, broker
        self.operator = {"authorization": f"Bearer {token}"}

    def sql(self, script: str) -> None:
        answer = httpx.post(f"{self.cluster}/sql", content=script, headers=self.operator, timeout=120, trust_env=False)
        assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    home = tmp_path_factory.mktemp("granted")
    cluster = Process("--home", str(home / "cluster"), "--master", "local[2]", "--anonymous", "none", **JOIN)
    try:
        url = cluster.event("ready")["url"]
        token = (home / "cluster" / "admin.token").read_text()
        with broker(home / "broker", url, "granted", "--anonymous", "none", join_secret=SECRET) as running:
            found = Network(url, token, running)
            found.sql(SETUP)
            yield found
    finally:
        code = cluster.end()
    assert code == 0, cluster.errors()


@pytest.fixture
def granted(network: Network) -> Network:
    """Users may subscribe to their own messages. A test that revokes it waits until the broker has learnt of it:
    what is visible afterwards is this grant."""
    user = RestUser(network.broker.url)

    def visible() -> list[str]:
        """The broker learns of a change a moment later than the operator."""
        return [each["name"] for each in user.http.get("/listchannels").json()["channels"]]

    network.sql(f"GRANT {OWN} TO user")
    eventually(visible)
    return network


def problem(response: httpx.Response) -> tuple[int, str]:
    response.read()
    return response.status_code, response.json()["error"]["code"]


def test_anonymous_neither_subscribes_nor_publishes_nor_sees_channels(granted: Network) -> None:
    speaker = Speaker(granted.broker.url)
    refused = speaker.ask("subscribe", channel="MessagesFor", args=["ann"])
    assert (refused["type"], refused["code"]) == ("error", "forbidden")
    assert "GRANT SUBSCRIBE ON CHANNEL MessagesFor" in refused["hint"]
    assert speaker.ask("publish", feed="MessageFeed", records=[{"user": "ann", "text": "a lie"}])["code"] == "forbidden"
    speaker.close()
    with httpx.Client(base_url=granted.broker.url, timeout=120, trust_env=False) as http:
        assert http.get("/listchannels").json() == {"channels": []}
        assert problem(http.get("/events?channel=MessagesFor&user=ann")) == (403, "forbidden")
    assert problem(httpx.post(f"{granted.cluster}/sql", content="SHOW GRANTS", trust_env=False)) == (403, "forbidden")


def test_a_user_receives_its_own_messages_and_no_others(granted: Network) -> None:
    ann, bob = RestUser(granted.broker.url), RestUser(granted.broker.url)
    assert [each["name"] for each in ann.http.get("/listchannels").json()["channels"]] == ["MessagesFor"]
    assert problem(ann.post("/subscribe", channel="MessagesFor", args=[bob.name])) == (403, "forbidden")
    assert problem(ann.post("/subscribe", channel="Everything", args=[])) == (403, "forbidden")
    assert problem(ann.post("/publish", feed="OtherFeed", records=[{}])) == (403, "forbidden")
    speaker = Speaker(granted.broker.url, token=ann.token)
    assert speaker.ask("subscribe", channel="MessagesFor", args={"user": bob.name})["code"] == "forbidden"
    assert speaker.ask("subscribe", channel="MessagesFor", args={"user": bob.name, "USER": ann.name})["type"] == "error"
    assert speaker.ask("subscribe", channel="MessagesFor", args={"user": ann.name})["type"] == "subscribed"
    posts = [{"user": bob.name, "text": "for bob"}, {"user": ann.name, "text": "for ann"}]
    assert bob.post("/publish", feed="MessageFeed", records=posts).json()["accepted"] == 2
    assert speaker.next("notify")["results"] == [{"text": "for ann"}]
    speaker.close()


def test_a_revoke_ends_subscriptions_live_and_a_grant_allows_them_again(granted: Network) -> None:
    ann = RestUser(granted.broker.url)
    speaker = Speaker(granted.broker.url, token=ann.token)
    id = speaker.ask("subscribe", channel="MessagesFor", args=[ann.name])["subscription"]
    rob = RestUser(granted.broker.url)
    subscription = rob.post("/subscribe", channel="MessagesFor", args=[rob.name]).json()["subscription"]
    with rob.http.stream("GET", "/events") as stream:
        found = events(stream)
        assert next(found)[1] == "subscribed"
        granted.sql("REVOKE SUBSCRIBE ON CHANNEL MessagesFor FROM user")
        ended = speaker.next("ended")
        assert (ended["subscription"], ended["code"]) == (id, "forbidden")
        assert next(data for _, event, data in found if event == "ended")["code"] == "forbidden"
    assert problem(rob.http.get("/getresults", params={"subscription": subscription}))[0] in (403, 404)
    assert speaker.ask("subscribe", channel="MessagesFor", args=[ann.name])["code"] == "forbidden"
    assert ann.http.get("/listsubscriptions").json() == {"subscriptions": []}
    granted.sql(f"GRANT {OWN} TO user")
    eventually(
        lambda: speaker.ask("subscribe", channel="MessagesFor", args=[ann.name]), lambda it: it["type"] == "subscribed"
    )
    speaker.close()


def test_the_sdk_ends_a_subscription_that_was_revoked_with_forbidden(granted: Network) -> None:
    ann = RestUser(granted.broker.url)
    with sync.connect(granted.broker.url, token=ann.token) as client:
        with pytest.raises(Forbidden, match="you may not subscribe to channel 'Everything'"):
            next(iter(client.subscribe("Everything")))
        subscription = client.subscribe("MessagesFor", user=ann.name)
        subscription.confirmed()  # else the message may be older than the subscription
        assert client.publish("MessageFeed", [{"user": ann.name, "text": "hello"}]).accepted == 1
        assert next(iter(subscription)).results == [{"text": "hello"}]
        granted.sql("REVOKE SUBSCRIBE ON CHANNEL MessagesFor FROM user")
        with pytest.raises(Forbidden, match="you may not subscribe to channel 'MessagesFor'"):
            next(iter(subscription))
        with pytest.raises(Forbidden, match="publish"):
            client.publish("OtherFeed", [{}])


@pytest.mark.parametrize(
    ("settings", "open_"),
    [
        ({}, True),
        ({"public_url": "http://localhost:8481"}, True),
        ({"public_url": "https://broker.example.org"}, False),
        ({"public_url": "https://broker.example.org", "anonymous": "all"}, True),
    ],
)
def test_a_broker_that_others_can_reach_does_not_open_itself(
    data: tuple[Sparkless, str], tmp_path: Path, settings: dict[str, str], open_: bool
) -> None:
    """The data cluster is on loopback, and open to everyone there."""
    # A name stays with the key of its home, and every case has a home of its own.
    with broker(tmp_path, data[1], tmp_path.name, **settings) as running:
        speaker = Speaker(f"http://127.0.0.1:{running.port}")
        answer = speaker.ask("subscribe", channel="OfKind", args=["fire"])
        assert (answer["type"], answer.get("code")) == (("subscribed", None) if open_ else ("error", "forbidden"))
        speaker.close()
