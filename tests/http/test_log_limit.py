"""One line a second for each kind of failure."""

from __future__ import annotations

import logging

import pytest

from tocsin.errors import StorageError
from tocsin.http import responses
from tocsin.http.log_limit import LogLimit


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_kind_has_one_line_a_second_and_the_next_says_how_many_were_left_out() -> None:
    clock = Clock()
    limit = LogLimit(1.0, clock)
    assert [limit.admit("away") for _ in range(4)] == [0, None, None, None]
    assert limit.admit("other") == 0
    clock.now += 0.99
    assert limit.admit("away") is None
    clock.now += 0.01
    assert [limit.admit("away"), limit.admit("away")] == [4, None]
    clock.now += 60
    assert [limit.admit("away"), limit.admit("other")] == [1, 0]


def test_requests_that_are_refused_for_the_same_reason_share_a_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(responses, "_refused", LogLimit(1.0, clock))
    away = StorageError("the catalog cannot be reached: connection refused")
    with caplog.at_level(logging.WARNING, "tocsin"):
        statuses = {responses.error_body(away, f"POST /feeds/F/{number}")[0] for number in range(50)}
        clock.now += 1
        responses.error_body(away, "GET /channels")
    assert statuses == {away.status}  # each client has its answer
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith("POST /feeds/F/0: ") and "left out" not in first
    assert last.startswith("GET /channels: ") and last.endswith("(49 like it were left out)")
