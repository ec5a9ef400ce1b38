"""``tocsin user`` with a real coordinator: what operators and users do, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from served import Ran, tocsin

sys.path.append(str(Path(__file__).parent.parent / "coordinator"))

from coordinator_lab import Coordinator, coordinator

ADMIN = "the-operators-token"
FIRST, SECOND = "correct horse battery", "another good password"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with coordinator(tmp_path_factory.mktemp("coordinator"), admin_token=ADMIN) as found:
        yield found


def user(network: Coordinator, *words: str, lines: tuple[str, ...] = (), admin: str = ADMIN) -> Ran:
    data = "".join(f"{line}\n" for line in lines).encode()
    env = {"TOCSIN_COORDINATOR": network.url, "TOCSIN_COORDINATOR_ADMIN_TOKEN": admin}
    return tocsin("user", *words, data=data, **env)


def printed(ran: Ran) -> str:
    assert ran.returncode == 0, ran
    return ran.stdout.decode().strip()


def listed(network: Coordinator) -> dict[str, list[str]]:
    return {each["user"]: each["roles"] for each in json.loads(printed(user(network, "list", "--json")))}


def test_an_operator_adds_changes_and_deletes_a_user(network: Coordinator) -> None:
    assert printed(user(network, "list")) == "There are no users."
    added = user(network, "add", "ann", "--role", "dispatchers", lines=(FIRST,))
    assert printed(added) == "ann is registered, with the roles dispatchers"
    assert printed(user(network, "list")).splitlines()[-1].split() == ["ann", "dispatchers", "0", "0"]
    assert printed(user(network, "roles", "ann")) == "ann has no roles of its own"
    assert listed(network) == {"ann": []}
    assert "another password" in printed(user(network, "password", "ann", "--reset", lines=(SECOND,)))
    assert printed(user(network, "login", "ann", lines=(SECOND,))).count(".") == 2, "a token"
    assert printed(user(network, "revoke", "ann")) == "all tokens of ann have ended"
    assert printed(user(network, "delete", "ann", "--yes")) == "ann is deleted"
    assert listed(network) == {}


def test_a_user_needs_only_the_password(network: Coordinator) -> None:
    printed(user(network, "add", "bob", lines=(FIRST,), admin=""))
    found = json.loads(printed(user(network, "login", "bob", "--device", "desk", "--json", lines=(FIRST,), admin="")))
    assert {"token", "refresh"} <= set(found)
    printed(user(network, "password", "bob", lines=(FIRST, SECOND), admin=""))
    assert b"wrong user or password" in user(network, "login", "bob", lines=(FIRST,)).stderr
    printed(user(network, "delete", "bob", "--yes"))


@pytest.mark.parametrize("words", [("list",), ("revoke", "x"), ("delete", "x", "--yes"), ("roles", "x", "admin")])
def test_what_operators_do_needs_their_token(network: Coordinator, words: tuple[str, ...]) -> None:
    refused = user(network, *words, admin="guessed")
    assert refused.returncode == 1 and b"wrong or missing admin token" in refused.stderr, refused


@pytest.mark.parametrize(
    ("words", "lines", "code", "error"),
    [
        (("add", "cleo"), (), 1, "no password on standard input"),
        (("add", "cleo"), ("short",), 1, "a password has 8 to 256 characters"),
        (("add", "c/d"), (FIRST,), 1, "a user's name has 1 to 128 visible characters"),
        (("add",), (FIRST,), 2, "Missing argument 'name'"),
        (("add", "cleo", "--password", FIRST), (), 2, "No such option: --password"),
        (("login", "nobody"), (FIRST,), 1, "wrong user or password"),
        (("password", "nobody"), (FIRST,), 1, "no new password on standard input"),
        (("password", "nobody", "--reset"), (FIRST,), 1, "no user 'nobody'"),
        (("delete", "nobody"), (), 1, "deleting a user has to be confirmed"),
        (("delete", "nobody", "--yes"), (), 1, "no user 'nobody'"),
        (("roles", "nobody", "r"), (), 1, "no user 'nobody'"),
        (("list", "--coordinator", "nonsense"), (), 1, "is not the address of a server"),
    ],
)
def test_a_mistake_is_explained_without_a_trace(
    network: Coordinator, words: tuple[str, ...], lines: tuple[str, ...], code: int, error: str
) -> None:
    ran = user(network, *words, lines=lines)
    assert ran.returncode == code and error in ran.stderr.decode() and b"Traceback" not in ran.stderr, ran
    assert ran.stdout == b""
