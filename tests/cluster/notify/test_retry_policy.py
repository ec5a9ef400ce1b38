"""How long requests to a silent broker are retried."""

from __future__ import annotations

from random import Random

import pytest

from tocsin.cluster.notify.retry_policy import RetryPolicy


@pytest.fixture
def retry() -> RetryPolicy:
    return RetryPolicy(100.0, Random(1), least=1.0, most=8.0)


def test_pauses_grow_up_to_a_maximum(retry):
    found = [retry.failed(float(second)) for second in range(6)]
    for pause, longest in zip(found, (1, 2, 4, 8, 8, 8), strict=True):
        assert pause is not None and longest / 2 <= pause <= longest


def test_a_broker_is_gone_after_too_long_a_silence(retry):
    assert retry.failed(50.0) is not None
    assert retry.failed(149.9) is not None
    assert retry.failed(150.0) is None


def test_an_answer_resets_the_failures(retry):
    retry.failed(0.0)
    retry.failed(99.0)
    retry.answered()
    assert (retry.failures, retry.silent_since) == (0, None)
    pause = retry.failed(101.0)
    assert pause is not None and pause <= 1.0
    assert retry.failed(200.9) is not None


def test_a_policy_without_time_gives_up_at_once():
    assert RetryPolicy(0.0, Random(1)).failed(5.0) is None
