"""Who may use which route of the data cluster, by the credential of the request."""

from __future__ import annotations

import asyncio
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from sparkless import Sparkless
from tocsin.cluster.http.operation import Exchange
from tocsin.cluster.http.server import App
from tocsin.cluster.ops.admin_token import admin_token
from tocsin.config import ClusterConfig
from tocsin.errors import StorageError
from tocsin.identity.tokens import Issuer, SigningKey

ELSEWHERE = "203.0.113.9"
BROKER = {"url": "http://127.0.0.1:9/notify"}
GRANTS = """
CREATE ROLE reporters;
GRANT SUBSCRIBE ON CHANNEL OfKind WITH (kind = claim('sub')) TO user;
GRANT PUBLISH ON FEED LocationFeed TO reporters;
GRANT SELECT ON DATASET Locations TO user;
"""


class Site:
    """A data cluster without Spark that listens for others; requests come from another machine."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.keys = home / "jwks.json"
        self.issuer = Issuer([SigningKey.new(0.0)], 3_600.0, time.time)
        self.keys.write_bytes(msgspec.json.encode(self.issuer.jwks()))
        config = ClusterConfig(home=str(home), host="0.0.0.0", token_keys=str(self.keys), **settings)
        self.cluster = Sparkless(config)
        self.cluster.start()
        self.app = App(self.cluster, config)

    def token(self, user: str, *roles: str) -> str:
        return self.issuer.issue(user, "phone", list(roles))[0]

    def ask(self, method: str, path: str, token: str = "", client: str = ELSEWHERE, **request: Any) -> httpx.Response:
        headers = request.pop("headers", {}) | ({"authorization": f"Bearer {token}"} if token else {})

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=(client, 5), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://cluster", timeout=60) as http:
                return await http.request(method, path, headers=headers, **request)

        return asyncio.run(send())

    def close(self) -> None:
        self.app.close()
        self.cluster.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    found.cluster.execute(GRANTS)
    found.cluster.register_broker("east", BROKER["url"])
    yield found
    found.close()


def outcome(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"] if response.is_error else ""


#: Every route, with what a request without a token from elsewhere gets.
CLOSED = [
    ("POST", "/sql", {"content": "CREATE ROLE x"}),
    ("POST", "/query", {"content": "SELECT * FROM Reports"}),
    ("POST", "/query", {"content": "SELECT * FROM Nothing"}),
    ("POST", "/query", {"content": "SELECT * FROM catalog.channels"}),
    ("POST", "/query", {"content": "SELECT * FROM OfKindResults"}),
    ("POST", "/query", {"content": "SELECT * FROM OfKindSubscriptions"}),
    ("POST", "/feeds/LocationFeed", {"json": {"user": "ann"}}),
    ("POST", "/feeds/Nothing", {"json": {}}),
    ("GET", "/channels/OfKind", {}),
    ("GET", "/channels/Nothing", {}),
    ("GET", "/channels/OfKind/subscriptions", {}),
    ("POST", "/channels/OfKind/subscriptions", {"json": {"broker": "east", "args": ["ann"]}}),
    ("GET", "/channels/OfKind/subscriptions/1", {}),
    ("DELETE", "/channels/OfKind/subscriptions/1", {}),
    ("POST", "/channels/OfKind/subscriptions/1/migrate", {"json": {"to": "east"}}),
    ("GET", "/channels/OfKind/subscriptions/1/results", {}),
    ("POST", "/channels/OfKind/unsubscribe", {"json": {"subscriptions": [1]}}),
    ("GET", "/channels/OfKind/executions", {}),
    ("GET", "/channels/OfKind/executions/1/results?broker=east", {}),
    ("GET", "/datasets", {}),
    ("GET", "/datasets/Reports", {}),
    ("GET", "/brokers", {}),
    ("POST", "/join", {"json": {}}),
    ("PUT", "/brokers/west", {"json": BROKER}),
    ("DELETE", "/brokers/west/key", {}),
    ("GET", "/grants", {}),
]


@pytest.mark.parametrize(("method", "path", "request_"), CLOSED, ids=[f"{each[0]} {each[1]}" for each in CLOSED])
def test_anonymous_from_another_machine_gets_nothing_without_a_grant(
    site: Site, method: str, path: str, request_: Any
) -> None:
    refused = site.ask(method, path, **request_)
    assert outcome(refused) == (403, "forbidden")
    assert "GRANT" in refused.json()["error"]["hint"]


def test_every_route_that_is_not_open_to_anyone_was_tried(site: Site) -> None:
    lists = {("GET", "/channels"), ("GET", "/feeds")}
    tried = {(method, path.partition("?")[0]) for method, path, _ in CLOSED} | lists
    routes = {
        (
            each.method,
            each.path.format(feed="LocationFeed", channel="OfKind", dataset="Reports", broker="west", id=1, number=1),
        )
        for each in site.app.site.operations
        if each.access != "anyone"
    }
    assert routes <= tried


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/openapi.json"])
def test_health_and_descriptions_are_open_to_anyone(site: Site, path: str) -> None:
    assert site.ask("GET", path).status_code == 200
    assert site.ask("GET", path, token="wrong").status_code == 200


@pytest.mark.parametrize(
    "header",
    ["Bearer wrong", "Bearer ", "Basic YTpi", "Bearer a.b.c", "bearer", "Bearer \u00e9", "Bearer " + "x" * 5_000],
)
def test_a_credential_that_is_not_valid_is_refused_even_where_none_is_needed(site: Site, header: str) -> None:
    site.cluster.execute("GRANT PUBLISH ON ALL FEEDS TO anonymous; GRANT SUBSCRIBE ON ALL CHANNELS TO anonymous")
    headers = {"authorization": header.encode("latin-1")}
    assert outcome(site.ask("POST", "/feeds/LocationFeed", json={"user": "ann"}, headers=headers))[0] == 401
    assert outcome(site.ask("GET", "/channels", headers=headers)) == (401, "unauthorized")


def test_a_token_of_other_keys_is_refused(site: Site) -> None:
    stranger = Issuer([SigningKey.new(0.0)], 3_600.0, time.time).issue("ann", "phone", ["reporters"])[0]
    assert outcome(site.ask("POST", "/feeds/LocationFeed", token=stranger, json={"user": "ann"})) == (
        401,
        "unauthorized",
    )


def test_a_user_does_what_its_roles_were_granted_and_nothing_else(site: Site) -> None:
    ann, reporter = site.token("ann"), site.token("rob", "Reporters")
    post = {"json": {"user": "ann", "lat": 1.0, "lon": 2.0}}
    assert outcome(site.ask("POST", "/feeds/LocationFeed", token=ann, **post)) == (403, "forbidden")
    assert outcome(site.ask("POST", "/feeds/LocationFeed", token=reporter, **post)) == (200, "")
    assert outcome(site.ask("POST", "/sql", token=ann, content="DROP CHANNEL OfKind")) == (403, "forbidden")
    assert outcome(site.ask("POST", "/query", token=ann, content="SELECT * FROM Reports")) == (403, "forbidden")
    joined = "SELECT 1 FROM Locations l WHERE l.user IN (SELECT kind FROM Reports)"
    assert outcome(site.ask("POST", "/query", token=ann, content=joined)) == (403, "forbidden")
    site.cluster.execute("CREATE FUNCTION hidden() { SELECT n FROM Reports }")
    assert outcome(site.ask("POST", "/query", token=ann, content="SELECT * FROM hidden()")) == (403, "forbidden")


def test_a_user_subscribes_only_with_the_arguments_that_its_grant_allows(site: Site) -> None:
    ann, path = site.token("ann"), "/channels/OfKind/subscriptions"
    own = site.ask("POST", path, token=ann, json={"broker": "east", "args": ["ann"]})
    assert own.status_code == 201
    refused = site.ask("POST", path, token=ann, json={"broker": "east", "subscriptions": [["ann"], {"kind": "bob"}]})
    assert outcome(refused) == (403, "forbidden")
    assert refused.json()["error"]["hint"] == "your grant requires that kind is your claim 'sub'"
    (bobs,) = site.cluster.subscribe("OfKind", "east", [["bob"]]).result(60)
    site.cluster.found("OfKind", (["ann"], [{"n": 1}]), (["bob"], [{"n": 2}]))
    (mine,) = own.json()["subscriptions"]
    assert '"n": 1' in site.ask("GET", f"{path}/{mine}/results", token=ann).text
    assert outcome(site.ask("GET", f"{path}/{bobs}/results", token=ann)) == (403, "forbidden")
    assert outcome(site.ask("GET", f"{path}/999/results", token=ann)) == (404, "not_found")


def test_a_user_sees_the_channels_that_it_may_subscribe_to_without_their_bodies(site: Site) -> None:
    (shown,) = site.ask("GET", "/channels", token=site.token("ann")).json()["channels"]
    assert (shown["name"], shown["body"], shown["parameters"][0]["name"]) == ("OfKind", "", "kind")
    assert site.ask("GET", "/channels/OfKind", token=site.token("ann")).json()["body"] == ""
    assert site.ask("GET", "/channels").json()["channels"] == []
    assert site.ask("GET", "/feeds").json()["feeds"] == []
    every = site.ask("GET", "/channels", token=site.cluster.admin_token).json()["channels"]
    assert len(every) == 3 and all("SELECT" in each["body"] for each in every)


def test_the_operators_token_is_in_a_file_of_its_own_and_allows_everything(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "admin.token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_text()
    assert outcome(site.ask("POST", "/sql", token=token, content="CREATE ROLE more")) == (200, "")
    assert outcome(site.ask("GET", "/brokers", token=token)) == (200, "")
    assert admin_token(tmp_path) == token


def test_an_empty_file_is_not_a_token(tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("\n")
    with pytest.raises(StorageError, match="is empty"):
        admin_token(tmp_path)


def test_a_part_serves_subscribers_but_does_not_administer(site: Site) -> None:
    """For now every process of this machine counts as a part."""
    here = "127.0.0.1"
    assert outcome(site.ask("GET", "/grants", client=here)) == (200, "")
    assert outcome(site.ask("PUT", "/brokers/west", client=here, json=BROKER)) == (200, "")
    assert outcome(site.ask("POST", "/feeds/LocationFeed", client=here, json={"user": "ann"})) == (200, "")
    assert outcome(site.ask("POST", "/sql", client=here, content="CREATE ROLE x")) == (403, "forbidden")
    assert outcome(site.ask("POST", "/query", client=here, content="SELECT * FROM Reports")) == (403, "forbidden")
    forwarded = {"x-forwarded-for": ELSEWHERE}
    assert outcome(site.ask("GET", "/grants", client=here, headers=forwarded)) == (403, "forbidden")


def test_new_keys_are_read_when_a_token_is_signed_with_an_unknown_one(site: Site) -> None:
    assert site.ask("GET", "/channels", token=site.token("ann")).status_code == 200
    site.issuer = Issuer([SigningKey.new(0.0)], 3_600.0, time.time)
    site.keys.write_bytes(msgspec.json.encode(site.issuer.jwks()))
    site.app.site.principals._fetched = float("-inf")  # the seconds between two requests for keys have passed
    assert site.ask("GET", "/channels", token=site.token("ann")).status_code == 200


def test_a_long_poll_of_the_grants_answers_when_they_change(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    token = site.cluster.admin_token
    before = site.ask("GET", "/grants", token=token).json()
    assert site.ask("GET", f"/grants?version={before['version']}&wait=0", token=token).json() == before

    async def change() -> dict[str, Any]:
        looked, gone = asyncio.Event(), Exchange.gone

        async def looks(exchange: Exchange) -> bool:
            looked.set()
            return await gone(exchange)

        monkeypatch.setattr(Exchange, "gone", looks)
        transport = httpx.ASGITransport(site.app)
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://cluster", headers=headers, timeout=60
        ) as http:
            waiting = asyncio.create_task(http.get(f"/grants?version={before['version']}&wait=60"))
            await looked.wait()
            assert not waiting.done(), "it has looked, and found the version that is known"
            await asyncio.to_thread(site.cluster.execute, "REVOKE SELECT ON DATASET Locations FROM user")
            return (await waiting).json()

    after = asyncio.run(change())
    assert after["version"] != before["version"]
    assert len(after["grants"]) == len(before["grants"]) - 1


@pytest.mark.parametrize(
    ("host", "anonymous", "open_"),
    [
        ("127.0.0.1", "", True),
        ("localhost", "", True),
        ("127.0.0.1", "none", False),
        ("0.0.0.0", "", False),
        ("::", "", False),
        ("no such host.invalid", "", False),
        ("0.0.0.0", "all", True),
    ],
)
def test_anonymous_may_do_everything_only_on_loopback_or_by_the_setting(
    tmp_path: Path, host: str, anonymous: Any, open_: bool
) -> None:
    cluster = Sparkless(ClusterConfig(home=str(tmp_path), host=host, anonymous=anonymous))
    try:
        assert (cluster.policy.open, cluster.grants.open) == (open_, open_)
    finally:
        cluster.close()
