"""The coordinator as a process: invalid requests, restarts, and its commands."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time

import httpx
import jwt
import msgspec
import pytest
from broker_lab import Broker, Speaker, broker
from coordinator_lab import Coordinator, coordinator
from websockets.exceptions import ConnectionClosed

from eventually import eventually
from served import environment, tocsin
from sparkless import sparkless
from tocsin.identity.part_keys import PartKey, Peer
from tocsin.wire import close_codes
from tocsin.wire.join import Joined
from tocsin.wire.tickets import Ticket, sign

SECRET = "open sesame"
SUBSCRIBER = "subscriber-with-22-char"


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    limits = {"report_bytes": 10_000}
    with coordinator(tmp_path_factory.mktemp("coordinator"), join_secret=SECRET, limits=limits) as found:
        yield found


@pytest.fixture
def http(process):
    with httpx.Client(base_url=process.url, timeout=120) as found:
        yield found


def peer(name, secret=SECRET):
    return Peer("coordinator", PartKey(name.encode().ljust(32), name), secret)


def register(http, name, secret=SECRET, **fields):
    join = msgspec.to_builtins(peer(name, secret).join("http://x"))
    return http.post("/registerbroker", json={"broker": name, "url": "http://x", "join": join, **fields})


def signed(http, name):
    """The header with which the broker of this name signs its requests."""
    own, join = peer(name), peer(name).join("http://x")
    answer = http.post("/registerbroker", json={"broker": name, "url": "http://x", "join": msgspec.to_builtins(join)})
    own.joined(join, msgspec.convert(answer.json()["joined"], Joined))
    return answer.json()["token"], own.headers


def report(http, name, token, headers=None, **fields):
    headers = {"authorization": f"Bearer {token}"} | (headers or {})
    return http.post(f"/brokers/{name}/report", json={"number": 1, "full": True, **fields}, headers=headers)


def refused(answer, status, code):
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    return answer.json()["error"]


def test_the_root_names_the_coordinator_and_its_paths(http):
    found = http.get("/").json()
    assert found["coordinator"] and "/registerbroker" in found["paths"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_the_health_checks_succeed(http, path):
    assert http.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/registerbroker", "/requestbroker", "/registeruser", "/brokers/a/report"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"unknown": 1}', b"null", b"[" * 5000])
def test_a_body_that_cannot_be_decoded_is_refused(http, path, body):
    answer = http.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"broker": ""},
        {"broker": "n" * 129},
        {"broker": "a/b"},
        {"capacity": 0},
        {"capacity": -1},
        {"most": 0},
        {"lat": 91},
        {"url": ""},
    ],
)
def test_an_invalid_registration_is_refused(http, fields):
    body = {"broker": "odd", "url": "http://x"} | fields
    assert http.post("/registerbroker", json=body).status_code == 400


@pytest.mark.parametrize("secret", ["", "close sesame", "öffne dich"])
def test_a_broker_with_a_wrong_secret_is_refused(http, secret):
    error = refused(register(http, "stranger", secret), 401, "unauthorized")
    assert "join_secret" in error["hint"]


def test_a_broker_without_a_key_is_refused(http):
    refused(http.post("/registerbroker", json={"broker": "keyless", "url": "http://x"}), 401, "unauthorized")


def test_a_report_needs_the_key_and_the_token_of_its_broker(http):
    (own, key), (other, other_key) = signed(http, "own"), signed(http, "other")
    assert report(http, "own", own, key).status_code == 200
    refused(report(http, "own", other, key), 401, "unauthorized")
    refused(report(http, "own", "guessed", key), 401, "unauthorized")
    refused(report(http, "own", own), 401, "unauthorized")
    refused(report(http, "own", own, other_key), 401, "unauthorized")
    refused(report(http, "unknown", own, key), 401, "unauthorized")


def test_a_ticket_of_one_coordinator_does_not_sign_for_another(http):
    """A token is only valid for the receiver that it names."""
    token, _ = signed(http, "own")
    elsewhere = {"tocsin-part": peer("own").own.token("another receiver")}
    refused(report(http, "own", token, elsewhere), 401, "unauthorized")


def test_a_token_that_is_not_utf8_is_refused(http):
    headers = {"authorization": b"Bearer \xff\xfe"}
    refused(http.post("/brokers/own/report", json={"number": 1}, headers=headers), 401, "unauthorized")


def test_a_report_that_is_too_long_is_refused(http):
    token, key = signed(http, "chatty")
    answer = report(http, "chatty", token, key, left=["x" * 20_000])
    assert answer.status_code == 413


@pytest.mark.parametrize("rates", [{"1": -5.0}, {"1": "much"}, {"one": 1.0}])
def test_an_invalid_report_is_refused(http, rates):
    token, key = signed(http, "odd")
    assert report(http, "odd", token, key, rates=rates).status_code == 400


@pytest.mark.parametrize("fields", [{"subscriber": "short"}, {"subscriber": "with spaces"}, {}, {"lat": 100}])
def test_an_invalid_broker_request_is_refused(http, fields):
    assert http.post("/requestbroker", json=fields).status_code == 400


@pytest.mark.parametrize("what", ["drain", "undrain"])
def test_an_unknown_broker_is_not_found(http, what):
    refused(http.post(f"/brokers/unknown/{what}"), 404, "not_found")


def test_a_website_cannot_drain_a_broker(http):
    register(http, "own")
    answer = http.post("/brokers/own/drain", headers={"origin": "https://evil.example"})
    assert answer.status_code == 403


def test_an_unknown_path_is_not_found(http):
    assert http.get("/nowhere").status_code == 404


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "after=-1", "unknown=1"])
def test_a_wrong_query_is_refused(http, query):
    assert http.get(f"/balance/log?{query}").status_code == 400


ANN = {"user": "ann", "password": "correct horse"}


def test_a_user_registers_once_and_logs_in(http):
    assert http.post("/registeruser", json=ANN).status_code == 201
    refused(http.post("/registeruser", json=ANN), 409, "already_exists")
    refused(http.post("/login", json=ANN | {"password": "wrong horse"}), 401, "unauthorized")
    tokens = http.post("/login", json=ANN).json()
    assert http.post("/refresh", json={"refresh": tokens["refresh"]}).json()["token"] != tokens["token"]
    (key,) = http.get("/jwks.json").json()["keys"]
    assert (key["kty"], key["alg"]) == ("OKP", "EdDSA")
    headers = {"authorization": f"Bearer {tokens['token']}"}
    assert http.post("/logout", headers=headers).status_code == 200
    refused(http.post("/logout", headers=headers), 401, "unauthorized")
    refused(http.post("/logout"), 401, "unauthorized")


def test_an_operator_gives_roles_and_revokes_tokens(http):
    refused(http.put("/users/nobody/roles", json={"roles": []}), 404, "not_found")
    assert http.post("/registeruser", json=ANN | {"user": "bob"}).status_code == 201
    tokens = http.post("/login", json=ANN | {"user": "bob"}).json()
    assert http.put("/users/bob/roles", json={"roles": ["nurse"]}).json() == {"user": "bob"}
    token = http.post("/refresh", json={"refresh": tokens["refresh"]}).json()["token"]
    assert jwt.decode(token, options={"verify_signature": False})["roles"] == ["nurse"]
    assert http.post("/users/bob/revoke").json() == {"user": "bob"}
    refused(http.post("/refresh", json={"refresh": tokens["refresh"]}), 401, "unauthorized")


def test_only_a_registered_broker_reads_and_stores_for_users(http):
    """503: a user's client must not take it for a refusal of its own token."""
    for path, body in (("users", {}), ("identity", {"call": {"call": "login", **ANN}})):
        headers = {"authorization": "Bearer made-up"}
        refused(http.post(f"/brokers/nobody/{path}", json=body, headers=headers), 503, "not_ready")


def test_registrations_above_the_limit_of_users_are_refused(tmp_path):
    with (
        coordinator(tmp_path, identity={"users": 1}) as running,
        httpx.Client(base_url=running.url, timeout=120) as http,
    ):
        assert http.post("/registeruser", json=ANN).status_code == 201
        error = refused(http.post("/registeruser", json=ANN | {"user": "eve"}), 413, "limit_exceeded")
        assert error["hint"] == "the operator can raise identity.users"


def test_a_flood_of_registrations_is_limited_and_delays_no_other_request(tmp_path):
    async def flood(url):
        async with httpx.AsyncClient(base_url=url, timeout=300, limits=httpx.Limits()) as http:
            bodies = [{"user": f"bot-{number}", "password": "correct horse"} for number in range(200)]
            requests = [asyncio.create_task(http.post("/registeruser", json=body)) for body in bodies]
            assert (await http.get("/healthz")).status_code == 200
            return await asyncio.gather(*requests)

    with coordinator(tmp_path, identity={"registrations": 20.0}) as running:
        begin = time.monotonic()
        answers = asyncio.run(flood(running.url))
        minutes = (time.monotonic() - begin) / 60
    assert {answer.status_code for answer in answers} <= {201, 429, 503}
    # A busy machine takes longer, and each minute allows as many again.
    assert sum(answer.status_code == 201 for answer in answers) <= 20 + 20 * minutes
    limited = next(answer for answer in answers if answer.status_code == 429)
    assert limited.json()["error"]["code"] == "rate_limited" and int(limited.headers["retry-after"]) >= 1


def started(*options, **settings):
    """Runs a ``tocsin coordinator`` that cannot start: its exit code and message."""
    command = [sys.executable, "-m", "tocsin.cli", "coordinator", "--json", "--port", "0", *options]
    ran = subprocess.run(command, capture_output=True, env=environment(**settings), timeout=120)
    return ran.returncode, json.loads(ran.stderr.splitlines()[-1])["error"]["message"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--strategy", "psychic"), "psychic"),
        (("--placement", "psychic"), "psychic"),
        (("--config", "/nowhere.toml"), "/nowhere.toml"),
        (("--host", "no.such.host.invalid"), "no.such.host.invalid"),
        (("--home", "/dev/null/home"), "/dev/null/home"),
    ],
)
def test_a_coordinator_that_cannot_start_explains_why(tmp_path, options, words):
    code, message = started("--home", str(tmp_path), *options)
    assert code == 1 and words in message


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval": "0"},
        {"gone_after": "-1"},
        {"limits_per_second": "0"},
        {"limits_in_flight": "0"},
        {"interval": "often"},
    ],
)
def test_an_invalid_setting_is_refused(tmp_path, wrong):
    variables = {f"TOCSIN_COORDINATOR_{name.upper()}": value for name, value in wrong.items()}
    code, message = started("--home", str(tmp_path), **variables)
    assert code == 1 and "the configuration is wrong" in message


def test_a_port_in_use_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, message = started("--home", str(tmp_path), "--port", port)
    assert code == 1 and f"port {port}" in message


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A data cluster, a coordinator and a broker."""
    folder = tmp_path_factory.mktemp("network")
    fast = {"interval": 0.2, "gone_after": 60.0, "balance_every": 0.5}
    with (
        sparkless(folder / "data") as (_, cluster),
        coordinator(folder / "coordinator", **fast) as running,
        broker(folder / "a", cluster, "a", "--coordinator", running.url) as found,
    ):
        until(running, lambda top: [each["state"] for each in top["brokers"]] == ["up"])
        yield running, found


def until(running: Coordinator, condition):
    return eventually(lambda: httpx.get(running.url + "/topology", timeout=60).json(), condition)


def say_hello(found: Broker, ticket: str, subscriber: str = SUBSCRIBER) -> str:
    speaker = Speaker(found.url, hello=False)
    try:
        return str(speaker.ask("hello", subscriber=subscriber, ticket=ticket)["type"])
    except Exception as error:
        return str(error)
    finally:
        speaker.close()


def place(running: Coordinator, subscriber: str = SUBSCRIBER) -> str:
    placed = httpx.post(running.url + "/requestbroker", json={"subscriber": subscriber}, timeout=60)
    return str(placed.json()["ticket"])


def test_a_running_broker_accepts_a_ticket_once(network):
    running, found = network
    ticket = place(running)
    assert say_hello(found, ticket) == "welcome"
    assert "used before" in say_hello(found, ticket)


@pytest.mark.parametrize("change", [lambda ticket: ticket[:-2] + "AA", lambda ticket: "x", lambda ticket: ticket[1:]])
def test_a_broker_refuses_a_forged_ticket(network, change):
    running, found = network
    assert say_hello(found, change(place(running))) != "welcome"


def test_a_broker_refuses_a_ticket_signed_with_another_key(network):
    _, found = network
    forged = sign(Ticket(SUBSCRIBER, "a", 1e12, "nonce"), b"k" * 32)
    assert "signature" in say_hello(found, forged)


def test_a_broker_refuses_the_ticket_of_another_subscriber(network):
    running, found = network
    assert "another subscriber or broker" in say_hello(found, place(running, "another-" + SUBSCRIBER))


def test_sessions_and_tickets_survive_a_restart_of_the_coordinator(network):
    running, found = network
    speaker = Speaker(found.url, subscriber=SUBSCRIBER)
    until(running, lambda top: top["subscribers"] == 1)
    ticket = place(running, "latecomer-" + SUBSCRIBER)
    running.kill()
    assert speaker.ask("subscribe", channel="OfKind", args=["fire"])["type"] == "subscribed"
    running.start()
    until(running, lambda top: top["subscribers"] == 1 and top["brokers"][0]["state"] == "up")
    assert say_hello(found, ticket, "latecomer-" + SUBSCRIBER) == "welcome"
    speaker.close()
    until(running, lambda top: top["subscribers"] == 0)


def test_top_shows_brokers_once(network):
    ran = tocsin("top", "--once", "--coordinator", network[0].url)
    assert ran.returncode == 0 and b"0 subscribers" in ran.stdout and b"up" in ran.stdout


def test_top_prints_json(network):
    found = json.loads(tocsin("top", "--json", "--coordinator", network[0].url).stdout)
    assert [each["name"] for each in found["brokers"]] == ["a"]


def test_top_reports_that_no_broker_has_registered(tmp_path):
    with coordinator(tmp_path) as empty:
        assert b"No broker has registered yet" in tocsin("top", "--once", "--coordinator", empty.url).stdout
        assert b"The log is empty" in tocsin("balance", "log", "--coordinator", empty.url).stdout


def test_the_log_command_prints_the_events(network):
    place(network[0])
    ran = tocsin("balance", "log", "--coordinator", network[0].url)
    assert ran.returncode == 0 and b"a at http://" in ran.stdout and b"placed" in ran.stdout
    found = json.loads(tocsin("balance", "log", "--limit", "1", "--json", "--coordinator", network[0].url).stdout)
    assert [each["kind"] for each in found] == ["placed"]


def test_the_plan_command_prints_the_plan_and_has_no_dry_run_flag(network):
    assert b": 0 migrations" in tocsin("balance", "plan", "--coordinator", network[0].url).stdout
    found = json.loads(tocsin("balance", "plan", "--json", "--coordinator", network[0].url).stdout)
    assert found["migrations"] == []
    assert tocsin("balance", "plan", "--dry-run", "--coordinator", network[0].url).returncode == 2


def test_a_client_gets_the_list_of_brokers(network):
    (broker,) = httpx.get(network[0].url + "/brokers", timeout=60).json()["brokers"]
    assert broker["broker"] == "a" and set(broker) == {"broker", "url", "lat", "lon"}


def test_the_history_contains_samples(network):
    url = network[0].url + "/history"
    found = eventually(lambda: httpx.get(url, params={"limit": 1}, timeout=60).json()["samples"])
    assert found[0]["brokers"] == {"a": [0.0, 0.0, 0]}


def test_the_commands_drain_and_undrain_a_broker(network):
    where = ("--coordinator", network[0].url)
    ran = tocsin("drain", "a", *where)
    assert (ran.returncode, ran.stdout) == (0, b"a is draining; tocsin top shows the progress\n")
    assert json.loads(tocsin("undrain", "a", "--json", *where).stdout) == {"broker": "a", "state": "up"}


def test_draining_an_unknown_broker_lists_the_known_ones(network):
    ran = tocsin("drain", "zebra", "--coordinator", network[0].url)
    assert ran.returncode == 1 and b"zebra" in ran.stderr and b"there are: a" in ran.stderr


@pytest.mark.parametrize("words", [["drain", "a"], ["undrain", "a"], ["top"], ["balance", "log"], ["balance", "plan"]])
@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_the_commands_report_an_unreachable_coordinator(words, json_too):
    ran = tocsin(*words, *json_too, "--coordinator", "http://127.0.0.1:9")
    assert ran.returncode == 1 and ran.stdout == b"" and b"http://127.0.0.1:9" in ran.stderr


def test_what_everybody_reads_does_not_let_a_stranger_replace_a_connection(network):
    running, found = network
    ids = [f"{SUBSCRIBER}-{n}" for n in range(3)]
    victims = [Speaker(found.url, subscriber=each, ticket=place(running, each)) for each in ids]
    until(running, lambda top: top["subscribers"] == 3)
    log = httpx.get(running.url + "/balance/log", timeout=60).text
    with httpx.stream("GET", running.url + "/events?backlog=1000", timeout=60) as stream:
        feed = next(stream.iter_text())
    plan = httpx.get(running.url + "/balance/plan", timeout=60).text
    of_broker = [httpx.get(found.url + path, timeout=60).text for path in ("/load", "/metrics", "/balancing")]
    assert not any(each in text for each in ids for text in (log, feed, plan, *of_broker))
    shown = {each["subscriber"] for each in json.loads(log)["log"]} - {""}
    assert len(shown) >= 3
    for each in shown:
        for fields in ({}, {"token": "made-up"}):
            attacker = Speaker(found.url, hello=False)
            attacker.send({"type": "hello", "id": 1, "subscriber": each, **fields})
            attacker.close()
    attacker = Speaker(found.url, hello=False)  # even a token that is not valid, with an id that is
    attacker.send({"type": "hello", "id": 1, "subscriber": ids[0], "token": "made-up"})
    with pytest.raises(ConnectionClosed) as refused:
        attacker.next("welcome")
    assert refused.value.rcvd is not None and refused.value.rcvd.code == close_codes.UNAUTHORIZED.code
    attacker.close()
    for each in victims:
        each.send({"type": "ping"})
        assert each.next("pong")
        each.close()


def test_a_thousand_placements_of_strangers_do_not_fill_the_log(network):
    running, _ = network
    with httpx.Client(base_url=running.url, timeout=60) as stranger:
        for n in range(1_000):
            stranger.post("/requestbroker", json={"subscriber": f"{SUBSCRIBER}-{n}"})
        log = stranger.get("/balance/log?limit=1000").json()["log"]
    assert len([each for each in log if each["kind"] == "placed"]) < 150


def test_a_stranger_reads_a_limited_part_of_the_log(tmp_path):
    with coordinator(tmp_path, admin_token="operator") as running:
        assert httpx.get(running.url + "/balance/log?limit=1000", timeout=60).status_code == 200
        assert httpx.get(running.url + "/balance/log?limit=1001", timeout=60).status_code == 401
        operator = {"authorization": "Bearer operator"}
        assert httpx.get(running.url + "/history?limit=100000", headers=operator, timeout=60).status_code == 200
