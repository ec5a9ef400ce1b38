"""Certificates from files that change while they are in use."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from certificates import Authority
from tocsin.errors import UserError
from tocsin.http.client import trust
from tocsin.http.tls import Tls


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def made(files: dict[str, str], **more: str) -> Tls:
    return Tls(files["tls_certificate"], files["tls_key"], files["tls_ca"], **more)


def serial(server: ssl.SSLContext, client: ssl.SSLContext) -> int:
    """Of the certificate in a handshake, without a network."""
    pipes = [ssl.MemoryBIO() for _ in range(4)]
    one = client.wrap_bio(pipes[0], pipes[1], server_hostname="localhost")
    two = server.wrap_bio(pipes[2], pipes[3], server_side=True)
    done = set()
    while len(done) < 2:
        for each in (one, two):
            try:
                each.do_handshake()
                done.add(each)
            except ssl.SSLWantReadError:
                pass
            pipes[2].write(pipes[1].read())
            pipes[0].write(pipes[3].read())
    return int(one.getpeercert()["serialNumber"], 16)


def test_without_a_certificate_there_is_no_tls():
    assert Tls().server() is None


def test_the_next_handshake_after_a_change_uses_the_new_certificate(authority):
    tls = made(authority.issue("part"))
    server, client = tls.server(), trust(authority.ca)
    before = serial(server, client)
    assert serial(server, client) == before
    authority.issue("part")
    assert serial(server, client) == before + 1


def test_unusable_files_leave_the_previous_certificate_until_they_are_whole(authority, caplog):
    files = authority.issue("part")
    tls = made(files)
    server, client = tls.server(), trust(authority.ca)
    before, key = serial(server, client), Path(files["tls_key"]).read_bytes()
    authority.issue("part")
    new = Path(files["tls_key"]).read_bytes()
    Path(files["tls_key"]).write_bytes(key)  # the certificate is new, the key is not
    assert serial(server, client) == before
    assert "the previous ones stay" in caplog.text
    Path(files["tls_key"]).write_bytes(new)
    assert serial(server, client) == before + 1


def test_a_client_shows_its_renewed_certificate(authority):
    server = made(authority.issue("server"), client_ca=authority.ca)
    part = made(authority.issue("part"))
    mutual = server.server(mutual=True)
    assert serial(mutual, part.client()) > 0
    held = part.client()
    authority.issue("part")
    assert part.client() is held and serial(mutual, held) > 0


def test_with_a_client_authority_a_client_without_a_certificate_is_refused(authority):
    tls = made(authority.issue("server"), client_ca=authority.ca)
    assert serial(tls.server(), trust(authority.ca)) > 0, "the public ports do not ask for one"
    with pytest.raises(ssl.SSLError):
        serial(tls.server(mutual=True), trust(authority.ca))


@pytest.mark.parametrize("files", [("missing", "", "", ""), ("", "", "missing", ""), ("", "", "", "missing")])
def test_files_that_cannot_be_used_are_an_error_at_the_start(files, tmp_path):
    with pytest.raises(UserError, match=r"tls_|TLS"):
        Tls(*(str(tmp_path / name) if name else "" for name in files))


def test_an_authority_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(UserError, match="authorities"):
        trust(str(tmp_path / "missing"))
