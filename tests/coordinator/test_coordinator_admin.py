"""Who may drain and forget brokers: those who know the token, or without one only this machine."""

from __future__ import annotations

import socket

import httpx
import pytest
from coordinator_lab import coordinator

from served import tocsin
from tocsin.coordinator.admin import Admin
from tocsin.errors import CrossOrigin, Unauthorized

TOKEN = "the-token"


def admin(token: str, host: str) -> Admin:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.bind((host, 0))
        return Admin(token, sock)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_without_a_token_this_machine_may(host):
    admin("", host).check([])


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
@pytest.mark.parametrize("shown", [[], [(b"authorization", b"Bearer ")], [(b"authorization", b"")]])
def test_without_a_token_nobody_may_from_outside_and_it_says_how_to_set_one(host, shown):
    with pytest.raises(Unauthorized, match="TOCSIN_COORDINATOR_ADMIN_TOKEN"):
        admin("", host).check(shown)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize(
    "shown", [None, b"", b"Bearer", b"Bearer ", b"Bearer the-tokem", b"the-token", b"Basic the-token", b"Bearer \xff"]
)
def test_with_a_token_it_has_to_be_shown(host, shown):
    found = admin(TOKEN, host)
    with pytest.raises(Unauthorized, match="Authorization: Bearer"):
        found.check([] if shown is None else [(b"authorization", shown)])
    found.check([(b"authorization", b"Bearer the-token")])


@pytest.mark.parametrize("token", ["", TOKEN])
def test_a_website_may_not_even_with_the_token(token):
    shown = [(b"host", b"a"), (b"origin", b"https://evil.example"), (b"authorization", b"Bearer " + token.encode())]
    with pytest.raises(CrossOrigin):
        admin(token, "127.0.0.1").check(shown)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with coordinator(tmp_path_factory.mktemp("guarded"), admin_token=TOKEN, host="0.0.0.0") as found:
        url = f"http://127.0.0.1:{found.port}"
        httpx.post(url + "/registerbroker", json={"broker": "a", "url": "http://x"}).raise_for_status()
        yield url


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/brokers/a/drain"), ("POST", "/brokers/a/undrain"), ("DELETE", "/brokers/a")]
)
def test_every_change_asks_for_it(url, method, path):
    for headers in ({}, {"authorization": "Bearer guessed"}):
        assert httpx.request(method, url + path, headers=headers).status_code == 401
    assert httpx.get(url + "/topology").json()["brokers"][0]["state"] == "gone"


def test_the_commands_show_it(url):
    where = ("--coordinator", url)
    refused = tocsin("drain", "a", *where)
    assert refused.returncode == 1 and b"--admin-token" in refused.stderr
    for given in ({"TOCSIN_COORDINATOR_ADMIN_TOKEN": TOKEN}, {}):
        option = [] if given else ["--admin-token", TOKEN]
        for command in ("drain", "undrain"):
            assert tocsin(command, "a", *where, *option, **given).returncode == 0


@pytest.mark.parametrize("token", ["zwei Wörter", "line\nbreak", "tab\t"])
def test_a_token_that_no_header_carries_is_refused(url, token):
    ran = tocsin("drain", "a", "--coordinator", url, "--admin-token", token)
    assert ran.returncode == 1 and b"no token has" in ran.stderr
    ran = tocsin("coordinator", "--port", "0", "--admin-token", token)
    assert ran.returncode == 1 and b"the configuration is wrong" in ran.stderr
