"""Limits by address and user."""

from __future__ import annotations

import pytest

from tocsin.errors import RateLimited
from tocsin.http.responses import error_answer
from tocsin.identity import rate_limit
from tocsin.identity.rate_limit import RateLimit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_key_has_its_own_limit_that_comes_back_with_time() -> None:
    clock = Clock()
    limit = RateLimit("guesses", 6, clock)
    for _ in range(6):
        limit.take("ann")
    with pytest.raises(RateLimited) as caught:
        limit.take("ann")
    assert caught.value.fields["retry_after"] == 10
    answer = error_answer(caught.value)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "10")
    limit.take("bob")
    clock.now += 10
    limit.take("ann")
    with pytest.raises(RateLimited):
        limit.take("ann")


def test_what_is_given_back_does_not_count() -> None:
    limit = RateLimit("guesses", 1, Clock())
    for _ in range(5):
        limit.take("ann")
        limit.give_back("ann")


def test_many_keys_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "REMEMBERED", 10)
    limit = RateLimit("guesses", 1, Clock())
    for number in range(100):
        limit.take(str(number))
    assert len(limit._buckets) == 10
