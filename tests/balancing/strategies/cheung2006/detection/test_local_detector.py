"""T25, T29, T30, T33: the flow chart of figure 3.5."""

from __future__ import annotations

from random import Random

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices, Offload
from tocsin.balancing.strategies.cheung2006.detection.local_detector import LocalDetector
from tocsin.balancing.strategies.cheung2006.detection.pie import Entries, Pie
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

LIGHT, HEAVY, OVER = Indices(0.2, 0.2, 0.01), Indices(0.6, 0.2, 0.01), Indices(1.2, 0.5, 0.05, 1.0)


def detector(**more) -> LocalDetector:
    return LocalDetector(Parameters(smoothing=1.0), Random(1), **more)


def entries(*statuses: Status) -> Entries:
    known = Entries(30.0)
    for number, status in enumerate(statuses, 2):
        known.register(Pie(f"B{number}", "C", status, LIGHT), 0.0)
    return known


def test_an_imbalance_gives_a_list():
    found = detector().detect(HEAVY, entries(Status.OK), 0.0)
    assert [(each.broker, each.action) for each in found.partners] == [("B2", Offload.INPUT)] and not found.overloaded


def test_an_overloaded_broker_becomes_unavailable_and_acts():
    one = detector()
    found = one.detect(OVER, entries(Status.OK, Status.UNAVAILABLE), 0.0)
    assert one.state.status is Status.UNAVAILABLE and found.overloaded
    assert [each.broker for each in found.partners] == ["B2"]


def test_an_overloaded_broker_without_partner_says_so():
    found = detector().detect(OVER, entries(Status.UNAVAILABLE), 0.0)
    assert found.overloaded and found.partners == []


def test_between_the_thresholds_nothing_happens():
    one = detector()
    found = one.detect(Indices(0.92, 0.2, 0.01), entries(Status.OK), 0.0)
    assert one.state.status is Status.UNAVAILABLE and not found.overloaded and found.partners == []


def test_after_overload_it_waits_until_the_load_is_stable():
    one = detector()
    one.detect(OVER, entries(), 0.0)
    assert one.detect(HEAVY, entries(Status.OK), 10.0).partners == []
    assert one.state.status is Status.STABILIZING
    assert one.detect(HEAVY, entries(Status.OK), 39.0).partners == []
    assert one.detect(HEAVY, entries(Status.OK), 41.0).partners and one.state.status is Status.OK


def test_an_unstable_load_prolongs_the_wait_but_overload_ends_it():
    one = detector()
    one.state.change(Status.BUSY, 0.0)
    one.state.change(Status.STABILIZING, 0.0)
    for now, indices in ((10.0, LIGHT), (50.0, HEAVY)):
        one.stability.record(indices, now)
    assert one.detect(HEAVY, entries(Status.OK), 60.0).partners == []
    assert one.detect(OVER, entries(Status.OK), 61.0).overloaded


def test_without_stabilizing_it_acts_at_once():
    one = detector(stabilizing=False)
    one.state.change(Status.BUSY, 0.0)
    one.state.change(Status.STABILIZING, 0.0)
    assert one.detect(HEAVY, entries(Status.OK), 1.0).partners


def test_an_ok_broker_gives_precedence_to_an_overloaded_one():
    assert detector().detect(HEAVY, entries(Status.OK, Status.UNAVAILABLE), 0.0).partners == []
    assert detector().detect(HEAVY, entries(Status.OK, Status.BUSY), 0.0).partners


def test_a_busy_broker_does_not_detect():
    one = detector()
    one.state.change(Status.BUSY, 0.0)
    assert one.detect(OVER, entries(Status.OK), 1.0).partners == [] and one.state.status is Status.BUSY


def test_it_sleeps_for_a_random_time():
    one = detector()
    times = []
    for _ in range(50):
        one.sleep(100.0)
        times.append(one.due_at)
    assert min(times) >= 120.0 and max(times) <= 140.0 and len(set(times)) > 40


def test_peaks_are_smoothed():
    one = LocalDetector(Parameters(smoothing=0.5), Random(1))
    one.detect(LIGHT, entries(), 0.0)
    one.detect(Indices(1.0, 0.2, 0.01), entries(), 30.0)
    assert one.smoothed.input == 0.6 and one.state.status is Status.OK
