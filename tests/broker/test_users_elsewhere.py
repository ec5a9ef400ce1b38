"""Two brokers share a store of users: each knows which users the other one serves."""

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


def test_a_session_belongs_to_the_broker_that_used_it_last(stores):
    one, two = stores
    one.register("ann", PASSWORD).result(120)
    session = one.login("ann", PASSWORD, "phone").result(120)
    assert one.elsewhere([session.id]).result(120) == [] and two.elsewhere([session.id]).result(120) == [session.id]
    two.session(session.token).result(120)
    assert one.elsewhere([session.id]).result(120) == [session.id] and two.elsewhere([session.id]).result(120) == []


def test_a_session_that_has_ended_belongs_to_no_broker(stores):
    one, two = stores
    one.register("ann", PASSWORD).result(120)
    session = one.login("ann", PASSWORD, "phone").result(120)
    two.logout(session.id).result(120)
    assert one.elsewhere([session.id]).result(120) == [session.id]


@pytest.mark.slow
def test_only_the_new_broker_serves_a_user_who_changes_brokers(tmp_path):
    with (
        sparkless(tmp_path / "data") as (cluster, url),
        broker(tmp_path / "users", url, "one", grace=0.0) as one,
        broker(tmp_path / "users", url, "two", grace=0.0) as two,
    ):
        credentials = {"user": "ann", "password": PASSWORD}
        assert httpx.post(f"{one.url}/registeruser", json=credentials, timeout=60).status_code == 201
        token = httpx.post(f"{one.url}/login", json=credentials, timeout=60).json()["token"]
        first = Speaker(one.url, token=token)
        id_ = first.ask("subscribe", channel="OfKind", args=["fire"])["subscription"]
        first.close()
        # One call is enough: from then on the other broker serves the user.
        held = httpx.get(
            f"{two.url}/listsubscriptions", headers={"authorization": f"Bearer {token}"}, timeout=60
        ).json()
        assert [each["subscription"] for each in held["subscriptions"]] == [id_]
        while cluster.subscriptions("OfKind", None, 0, 100)[0]["brokers"] != ["two"]:
            httpx.get(f"{one.url}/healthz", timeout=60)  # until the broker checks again for users at other brokers
