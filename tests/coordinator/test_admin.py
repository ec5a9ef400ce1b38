"""Administrative requests need the token; without a configured token only local requests are allowed."""

from __future__ import annotations

import socket

import httpx
import msgspec
import pytest
from coordinator_lab import coordinator

from served import tocsin
from tocsin.coordinator.admin import Admin
from tocsin.coordinator.server import ROUTES
from tocsin.errors import CrossOrigin, Unauthorized
from tocsin.identity.part_keys import PartKey, Peer

TOKEN = "the-token"


def admin(token: str, host: str) -> Admin:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.bind((host, 0))
        return Admin(token, sock, ["this-machine.example"])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
@pytest.mark.parametrize(
    "host_header",
    [
        b"localhost",
        b"localhost:8482",
        b"LocalHost:1",
        b"127.0.0.1",
        b"127.0.0.7:8482",
        b"[::1]",
        b"[::1]:8482",
        b"this-machine.example:80",
    ],
)
@pytest.mark.parametrize("origin", [False, True])
def test_without_a_token_local_requests_are_allowed(host, host_header, origin):
    admin("", host).check([(b"host", host_header), *([(b"origin", b"http://" + host_header)] if origin else [])])


@pytest.mark.parametrize(
    "host_header",
    [
        None,
        b"",
        b":8482",
        b"evil.example",
        b"evil.example:8482",
        b"127.0.0.1.evil.example",
        b"localhost.evil.example:8482",
        b"localhost.:8482",
        b"localhost@evil.example",
        b"evil.example@localhost",
        b"localhost/evil.example",
        b"127.0.0.1:99999",
        b"127.0.0.1:port",
        b"127.1",
        b"2130706433",
        b"0.0.0.0",
        b"10.0.0.1",
        b"[::1",
        b"::1",
        b"[fe80::1]",
        b"l\xf6calhost",
        b"\xff",
    ],
)
def test_without_a_token_dns_rebinding_is_refused(host_header):
    """DNS rebinding: the page's own name resolves to 127.0.0.1, so that Origin and Host are the same."""
    shown = [] if host_header is None else [(b"host", host_header), (b"origin", b"http://" + host_header)]
    with pytest.raises(CrossOrigin):
        admin("", "127.0.0.1").check(shown)
    with pytest.raises(CrossOrigin):
        admin("", "127.0.0.1").check(shown[:1])


def test_a_unix_socket_accepts_any_host(tmp_path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "socket"))
        Admin("", sock).check([(b"host", b"whatever")])


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
@pytest.mark.parametrize("shown", [[], [(b"authorization", b"Bearer ")], [(b"authorization", b"")]])
def test_without_a_token_a_public_address_refuses_and_explains_how_to_set_one(host, shown):
    with pytest.raises(Unauthorized, match="TOCSIN_COORDINATOR_ADMIN_TOKEN"):
        admin("", host).check(shown)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize(
    "shown", [None, b"", b"Bearer", b"Bearer ", b"Bearer the-tokem", b"the-token", b"Basic the-token", b"Bearer \xff"]
)
def test_a_configured_token_is_required(host, shown):
    found = admin(TOKEN, host)
    with pytest.raises(Unauthorized, match="Authorization: Bearer"):
        found.check([] if shown is None else [(b"authorization", shown)])
    found.check([(b"authorization", b"Bearer the-token")])


def test_without_a_token_another_website_is_refused():
    with pytest.raises(CrossOrigin):
        admin("", "127.0.0.1").check([(b"host", b"localhost"), (b"origin", b"https://app.example")])


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with coordinator(tmp_path_factory.mktemp("guarded"), admin_token=TOKEN, host="0.0.0.0", join_secret="s") as found:
        url = f"http://127.0.0.1:{found.port}"
        join = msgspec.to_builtins(Peer("coordinator", PartKey(b"k" * 32, "a"), "s").join("http://x"))
        body = {"broker": "a", "url": "http://x", "join": join}
        httpx.post(url + "/registerbroker", json=body, timeout=60).raise_for_status()
        yield url


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/brokers/a/drain"), ("POST", "/brokers/a/undrain"), ("DELETE", "/brokers/a")]
)
def test_every_change_requires_the_admin_token(url, method, path):
    for headers in ({}, {"authorization": "Bearer guessed"}):
        assert httpx.request(method, url + path, headers=headers, timeout=60).status_code == 401
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert httpx.get(url + "/topology", headers=headers, timeout=60).json()["brokers"][0]["state"] == "gone"


#: What clients need, health, and the files of the page.
OPEN = {"/", "/openapi.json", "/healthz", "/readyz", "/jwks.json", "/brokers", "/ui", "/ui/{path:path}"}


@pytest.mark.parametrize("path", [each.path for each in ROUTES if each.method == "GET"])
def test_beyond_loopback_every_view_requires_the_admin_token(url, path):
    for headers in ({}, {"authorization": "Bearer guessed"}):
        with httpx.stream("GET", url + path.replace("{channel}", "c"), headers=headers, timeout=60) as answer:
            assert (answer.status_code == 401) is (path not in OPEN)
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.stream("GET", url + path.replace("{channel}", "c"), headers=headers, timeout=60) as answer:
        assert answer.status_code != 401


def test_on_loopback_anybody_may_look_and_beyond_it_without_a_token_no_one():
    admin("", "127.0.0.1").check_view([])
    admin(TOKEN, "127.0.0.1").check_view([])
    with pytest.raises(Unauthorized, match="TOCSIN_COORDINATOR_ADMIN_TOKEN"):
        admin("", "0.0.0.0").check_view([(b"host", b"localhost")])


def test_the_commands_send_the_admin_token(url):
    where = ("--coordinator", url)
    refused = tocsin("drain", "a", *where)
    assert refused.returncode == 1 and b"--admin-token" in refused.stderr
    for given in ({"TOCSIN_COORDINATOR_ADMIN_TOKEN": TOKEN}, {}):
        option = [] if given else ["--admin-token", TOKEN]
        for command in (["drain", "a"], ["undrain", "a"], ["top", "--once"], ["balance", "log"], ["balance", "plan"]):
            assert tocsin(*command, *where, *option, **given).returncode == 0


@pytest.mark.parametrize("token", ["zwei Wörter", "line\nbreak", "tab\t"])
def test_a_token_that_does_not_fit_into_a_header_is_refused(url, token):
    ran = tocsin("drain", "a", "--coordinator", url, "--admin-token", token)
    assert ran.returncode == 1 and b"the token has invalid characters" in ran.stderr
    ran = tocsin("coordinator", "--port", "0", "--admin-token", token)
    assert ran.returncode == 1 and b"the configuration is wrong" in ran.stderr
