"""The network benchmark runs with two brokers and six subscribers, with correct counts."""

from __future__ import annotations

import pytest
from benchmarks import network
from benchmarks.subscribers import Diary


# tests/coordinator/test_network.py tests the network itself in every run.
@pytest.mark.slow
def test_subscribers_lose_and_repeat_nothing_when_a_broker_is_drained_and_another_killed(
    monkeypatch: pytest.MonkeyPatch,
):
    # A busy machine must not count as a dead broker or a lost notification.
    monkeypatch.setattr(network, "TIMEOUT", 300.0)
    monkeypatch.setattr(network, "LATE", 300.0)
    monkeypatch.setattr(network, "HEARTBEAT", 30)
    monkeypatch.setattr(network, "COOL_DOWN", 0)
    monkeypatch.setitem(network.SETTINGS, "GONE_AFTER", 8)
    names = ["start", "drain", "undrain", "kill"]
    phases = network.tocsin(2, 6, names, crowds=1, steady=0.3)
    assert [phase.name for phase in phases] == names
    for phase in phases:
        assert (phase.lost, phase.duplicated) == (0, 0)
        assert phase.balanced is not None and phase.rest is not None and phase.balanced <= phase.rest
        assert phase.delays and sum(phase.spread) == 6
    assert phases[1].migrations > 0 and phases[1].reconnects == 0
    assert phases[3].reconnects > 0


def test_a_diary_counts_missing_and_repeated_notifications():
    diary = Diary("kind1")  # it expects every odd number
    diary.got = [(1, 5.0), (5, 6.0), (5, 7.0), (9, 8.0)]
    assert diary.has(8) and diary.has(10) and not diary.has(11)
    assert diary.take(1, 8) == (2, 1, [5.0, 6.0])
    assert diary.take(9, 10) == (0, 0, [8.0])
