"""Host and Origin headers, by the address that a server listens on and by its settings."""

from __future__ import annotations

import socket

import pytest

from tocsin.http.access import Access, host_of

EVIL = b"evil.example:8480"


def access(listens: str, *hosts: str, origins: tuple[str, ...] = (), own: tuple[str, ...] = ()) -> Access:
    with socket.socket(socket.AF_INET6 if ":" in listens else socket.AF_INET) as sock:
        sock.bind((listens, 0))
        return Access(sock, hosts, origins, own=own)


@pytest.mark.parametrize("listens", ["0.0.0.0", "::"])
def test_a_server_beyond_loopback_accepts_any_host_unless_a_setting_names_them(listens):
    assert access(listens, own=(listens,)).refusal([(b"host", EVIL)]) is None
    named = access(listens, "north.example.org")
    assert named.refusal([(b"host", EVIL)]) is not None
    assert named.refusal([(b"host", b"North.example.org:8481")]) is None
    assert named.refusal([(b"host", b"127.0.0.1:8481")]) is None, "a health check on the machine itself"


def test_a_server_on_loopback_accepts_the_names_of_the_setting_and_its_own():
    found = access("127.0.0.1", "north.example.org", own=("this-machine",))
    for host in (b"north.example.org", b"this-machine:1", b"localhost"):
        assert found.refusal([(b"host", host)]) is None
        assert found.refusal([(b"host", host)]) is None, "the second time too"
    assert found.refusal([(b"host", EVIL)]) is not None


def test_two_host_headers_are_none():
    assert access("127.0.0.1").refusal([(b"host", b"localhost"), (b"host", EVIL)]) is not None


def test_many_names_of_loopback_stay_accepted():
    found = access("127.0.0.1")
    for port in range(200):
        assert found.refusal([(b"host", b"localhost:%d" % port)]) is None


@pytest.mark.parametrize(
    ("origin", "accepted"),
    [
        (b"http://localhost:8481", True),
        (b"https://app.example.org", True),
        (b"https://APP.example.org", True),
        (b"http://app.example.org", False),
        (b"https://app.example.org:444", False),
        (b"null", False),
        (b"https://[", False),
    ],
)
def test_an_origin_has_to_be_the_same_or_one_of_the_setting(origin, accepted):
    found = access("127.0.0.1", origins=("https://app.example.org/",))
    assert (found.refusal([(b"host", b"localhost:8481"), (b"origin", origin)]) is None) is accepted


@pytest.mark.parametrize(
    ("url", "host"), [("https://North.example:8481/x", "north.example"), ("", ""), ("north", ""), ("http://[::1/", "")]
)
def test_the_host_of_an_address_is_found(url, host):
    assert host_of(url) == host


def test_a_star_allows_every_origin():
    found = access("127.0.0.1", origins=("*",))
    assert found.refusal([(b"host", b"localhost"), (b"origin", b"https://anything.example")]) is None
