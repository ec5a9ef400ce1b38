"""Strangers cannot act as a part: not as a broker, not as the data cluster that notifies one."""

from __future__ import annotations

import httpx
import msgspec
import pytest
from broker_lab import Speaker, broker
from coordinator_lab import coordinator

from eventually import eventually
from served import tocsin
from sparkless import sparkless
from tocsin.identity.part_keys import PartKey, Peer

SECRET = "the join secret"
FORGED = {"subscription": 1, "execution": 2**53 - 2, "count": 1, "results": [{"n": "forged"}]}


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A data cluster, a coordinator and the broker b, which know the same secret."""
    folder = tmp_path_factory.mktemp("network")
    with (
        sparkless(folder / "data", join_secret=SECRET) as (data, url),
        coordinator(folder / "coordinator", join_secret=SECRET, cluster=url) as center,
        broker(folder / "b", url, "b", "--coordinator", center.url, join_secret=SECRET) as b,
    ):
        yield data, url, center, b


def stranger(part, secret="", key=b"x", name="b"):
    return Peer(part, PartKey(key * 32, name), secret)


def test_parts_with_one_secret_find_each_other(network):
    data, _, center, b = network
    eventually(lambda: httpx.get(center.url + "/topology", timeout=60).json()["brokers"][0]["state"] == "up")
    speaker = Speaker(b.url)
    speaker.ask("subscribe", channel="PushedAbove", args=[7])
    data.found("PushedAbove", ([7], [{"n": 8}]))
    assert speaker.next("notify")["results"] == [{"n": 8}]
    speaker.close()


@pytest.mark.parametrize("secret", ["", "guessed"])
def test_a_stranger_cannot_register_as_a_broker(network, secret):
    _, url, center, _ = network
    peer = stranger("coordinator", secret, name="evil")
    body = {"broker": "evil", "url": "http://evil", "join": msgspec.to_builtins(peer.join("http://evil"))}
    assert httpx.post(center.url + "/registerbroker", json=body, timeout=60).status_code == 401
    assert (
        httpx.post(center.url + "/registerbroker", json={"broker": "e", "url": "http://e"}, timeout=60).status_code
        == 401
    )
    address = "http://127.0.0.1:9/notify"
    join = msgspec.to_builtins(stranger("data cluster", secret, name="evil").join(address))
    for body in ({"url": address, "join": join}, {"url": address}):
        assert httpx.put(url + "/brokers/evil", json=body, timeout=60).status_code == 401


def test_the_coordinator_joins_the_data_cluster_whose_channels_it_shows(network):
    data, _, center, _ = network
    answer = httpx.get(center.url + "/cluster/channels", timeout=60)
    assert answer.status_code == 200 and "channels" in answer.json()
    assert data.key_of("/coordinator") != ""


def test_a_stranger_cannot_join_as_the_coordinator(network):
    _, url, *_ = network
    for secret in ("", "guessed"):
        join = stranger("data cluster", secret, name="/coordinator").join("")
        body = {"name": "/coordinator", "join": msgspec.to_builtins(join)}
        assert httpx.post(url + "/join", json=body, timeout=60).status_code == 401
    body = {"name": "b", "join": msgspec.to_builtins(stranger("data cluster", SECRET).join(""))}
    assert httpx.post(url + "/join", json=body, timeout=60).status_code == 400, "not in the name of a broker"


def test_even_with_the_secret_no_other_key_takes_the_name_of_a_running_broker(network):
    data, url, center, _ = network
    before = data.brokers()
    address = "http://127.0.0.1:9/notify"
    join = msgspec.to_builtins(stranger("data cluster", SECRET).join(address))
    answer = httpx.put(url + "/brokers/b", json={"url": address, "join": join}, timeout=60)
    assert answer.status_code == 409 and data.brokers() == before
    join = msgspec.to_builtins(stranger("coordinator", SECRET).join("http://x"))
    body = {"broker": "b", "url": "http://x", "join": join}
    assert httpx.post(center.url + "/registerbroker", json=body, timeout=60).status_code == 401


CALLS = [
    ("POST", "/channels/PushedAbove/subscriptions", {"broker": "b", "args": [1]}),
    ("POST", "/channels/PushedAbove/unsubscribe", {"broker": "b", "subscriptions": [1]}),
    ("POST", "/channels/PushedAbove/subscriptions/1/migrate", {"args": [1], "to": "b"}),
    ("GET", "/channels/PushedAbove/subscriptions?broker=b", None),
    ("GET", "/channels/PushedAbove/subscriptions?broker=B", None),
    ("DELETE", "/channels/PushedAbove/subscriptions/1?broker=b", None),
    ("GET", "/channels/PushedAbove/executions/1/results?broker=b", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
def test_only_a_broker_itself_acts_in_its_name(network, method, path, body):
    data, url, *_ = network
    other = stranger("data cluster")
    other.key = data.key.public
    for headers in ({}, other.headers, {"tocsin-part": "made up"}):
        answer = httpx.request(method, url + path, json=body, headers=headers, timeout=60)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")


@pytest.mark.parametrize("unusual", [{}, {"transfer-encoding": "chunked"}])
def test_a_forged_notification_is_refused_and_later_results_arrive(network, unusual):
    data, _, _, b = network
    speaker = Speaker(b.url)
    id = speaker.ask("subscribe", channel="PushedAbove", args=[70])["subscription"]
    body = {"broker": "b", "channel": "PushedAbove", "execution": 2**53 - 2, "results": [FORGED | {"subscription": id}]}
    data_cluster = PartKey(b"f" * 32, "data cluster")
    tokens = [{}, {"tocsin-part": data_cluster.token(data.key_of("b"))}, {"tocsin-part": data.key.token("another")}]
    for token in tokens:
        content = iter([msgspec.json.encode(body)]) if unusual else msgspec.json.encode(body)
        answer = httpx.post(b.facts["inside"] + "/notify", content=content, headers=token | unusual, timeout=60)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
    data.found("PushedAbove", ([70], [{"n": 71}]))
    assert speaker.next("notify")["results"] == [{"n": 71}]
    speaker.close()


def test_a_broker_without_the_secret_says_why_it_is_not_ready(network, tmp_path):
    from brokers import Broker

    _, url, *_ = network
    outsider = Broker(tmp_path, url, "outsider")
    outsider.event("listening")
    facts = eventually(
        lambda: "join secret" in (found := httpx.get(outsider.url + "/readyz", timeout=60)).text and found
    )
    assert facts.status_code == 503
    outsider.process.kill()
    outsider.process.wait()


@pytest.mark.parametrize(
    ("part", "variable"),
    [
        ("cluster", b"TOCSIN_JOIN_SECRET"),
        ("broker", b"TOCSIN_BROKER_JOIN_SECRET"),
        ("coordinator", b"TOCSIN_COORDINATOR_JOIN_SECRET"),
    ],
)
def test_a_part_beyond_loopback_does_not_start_without_a_join_secret(tmp_path, part, variable):
    ran = tocsin(part, "--host", "0.0.0.0", "--port", "0", "--home", str(tmp_path))
    assert ran.returncode == 1 and b"needs a join secret" in ran.stderr and variable in ran.stderr


def test_the_inner_port_of_a_broker_is_on_loopback_by_default(network, tmp_path):
    with broker(tmp_path, network[1], "public", "--host", "0.0.0.0", join_secret=SECRET) as found:
        assert found.facts["inside"].startswith("http://127.0.0.1:")
