"""The benchmark of the network runs and counts what it should, with two brokers and a handful of subscribers."""

from __future__ import annotations

import pytest
from benchmarks import network
from benchmarks.subscribers import Diary


# What it measures is held by tests/coordinator/test_network.py in every run; this one is of the benchmark itself.
@pytest.mark.slow
def test_nothing_is_lost_or_twice_when_one_of_two_brokers_is_drained_and_one_is_killed(monkeypatch: pytest.MonkeyPatch):
    # No broker counts as dead and no notification as lost because the machine is busy.
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


def test_a_diary_finds_what_is_missing_and_what_is_there_twice():
    diary = Diary("kind1")  # its turn is at every odd number
    diary.got = [(1, 5.0), (5, 6.0), (5, 7.0), (9, 8.0)]
    assert diary.has(8) and diary.has(10) and not diary.has(11)
    assert diary.take(1, 8) == (2, 1, [5.0, 6.0])
    assert diary.take(9, 10) == (0, 0, [8.0])
