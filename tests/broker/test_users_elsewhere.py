"""Two brokers share a store of users: each knows who is kept for at the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from broker_lab import Speaker, broker

from sparkless import sparkless
from tocsin.broker.user_store import UserStore

PASSWORD = "correct horse"


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[UserStore, UserStore]]:
    one, two = (UserStore(tmp_path / "users.db", name, 3600.0, lambda: 1_000.0) for name in ("one", "two"))
    yield one, two
    one.close()
    two.close()


def test_a_session_is_where_it_was_used_last(stores):
    one, two = stores
    one.register("ann", PASSWORD).result(120)
    session = one.login("ann", PASSWORD, "phone").result(120)
    assert one.elsewhere([session.id]).result(120) == [] and two.elsewhere([session.id]).result(120) == [session.id]
    two.session(session.token).result(120)
    assert one.elsewhere([session.id]).result(120) == [session.id] and two.elsewhere([session.id]).result(120) == []


def test_a_session_that_has_ended_is_nowhere(stores):
    one, two = stores
    one.register("ann", PASSWORD).result(120)
    session = one.login("ann", PASSWORD, "phone").result(120)
    two.logout(session.id).result(120)
    assert one.elsewhere([session.id]).result(120) == [session.id]


@pytest.mark.slow
def test_who_goes_to_another_broker_is_kept_there_only(tmp_path):
    with (
        sparkless(tmp_path / "data") as (cluster, url),
        broker(tmp_path / "users", url, "one", grace=0.0) as one,
        broker(tmp_path / "users", url, "two", grace=0.0) as two,
    ):
        who = {"user": "ann", "password": PASSWORD}
        assert httpx.post(f"{one.url}/registeruser", json=who, timeout=60).status_code == 201
        token = httpx.post(f"{one.url}/login", json=who, timeout=60).json()["token"]
        first = Speaker(one.url, token=token)
        number = first.ask("subscribe", channel="OfKind", args=["fire"])["subscription"]
        first.close()
        # A call is enough: from then on the other one keeps it.
        held = httpx.get(
            f"{two.url}/listsubscriptions", headers={"authorization": f"Bearer {token}"}, timeout=60
        ).json()
        assert [each["subscription"] for each in held["subscriptions"]] == [number]
        while cluster.subscriptions("OfKind", None, 0, 100)[0]["brokers"] != ["two"]:
            httpx.get(f"{one.url}/healthz", timeout=60)  # it takes until the next look for users who have gone
