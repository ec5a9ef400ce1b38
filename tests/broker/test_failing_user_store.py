"""A store of users that fails: a good token is never called invalid, and its client tries again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from broker_lab import Speaker, broker
from rest_user import RestUser
from websockets.exceptions import ConnectionClosed

from sparkless import Sparkless
from tocsin.wire import close_codes


def test_a_good_token_is_not_refused_while_the_store_fails(data: tuple[Sparkless, str], tmp_path: Path) -> None:
    with broker(tmp_path, data[1], "failing") as running:
        user = RestUser(running.url)
        with closing(sqlite3.connect(tmp_path / "users.db", isolation_level=None)) as other:
            other.execute("ALTER TABLE sessions RENAME TO hidden")
            with pytest.raises(ConnectionClosed) as caught:
                Speaker(running.url, token=user.token)
            assert caught.value.rcvd is not None and caught.value.rcvd.code == close_codes.UNVERIFIED.code
            answer = httpx.get(f"{running.url}/listsubscriptions", headers=user.http.headers, timeout=60)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unreachable")
            other.execute("ALTER TABLE hidden RENAME TO sessions")
        while (answer := user.http.get("/listsubscriptions")).status_code == 503:
            pass  # until the broker has tried again
        assert answer.json() == {"subscriptions": []}
        assert user.post("/login", user=user.name, password="correct horse").status_code == 200
