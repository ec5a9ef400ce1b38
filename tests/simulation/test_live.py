"""The live prototype: what it reads from the coordinator, and how the result is judged."""

from __future__ import annotations

import pytest

from tocsin.config import CoordinatorLimits
from tocsin.experiments.debs2019 import live
from tocsin.experiments.debs2019.variants import Runs
from tocsin.experiments.outcome import Outcome, Verdict
from tocsin.experiments.report import write


def history(skew: float) -> list[dict[str, object]]:
    """As ``GET /history`` answers."""
    brokers = {"b1": [100.0, 900.0 * skew, 7], "b2": [100.0, 900.0, 3]}
    return [{"time": 1_000.0 + look, "brokers": brokers} for look in range(6)]


FACTS = {"migrations": 3, "notifications": 1_000, "people_reached": 10}


def log(*reasons: str) -> list[dict[str, object]]:
    """As ``GET /balance/log`` answers: one migration a second, each completed as soon as it is ordered."""
    plan = {"kind": "plan", "time": 1_000.5, "subscriber": "", "source": "", "target": "", "text": "2 moves: LDM"}
    notes: list[dict[str, object]] = [plan]
    for n, reason in enumerate(reasons):
        migration = {"kind": "migration", "subscriber": f"s{n}", "source": "b1", "target": "b2", "time": 1_001.0 + n}
        notes += [migration | {"text": f"accepted: {reason}"}, migration | {"text": "the subscriber has arrived"}]
    failed = {"kind": "migration", "subscriber": "s9", "source": "b2", "target": "b1", "time": 1_004.0}
    return [*notes, failed | {"text": "accepted: LDM"}, failed | {"text": "failed: it stays"}]


def test_a_live_run_is_read_from_the_coordinators_history_and_log():
    found = live.read(history(2.0), log("LDM", "GSH"), 30.0, 1_000.0)
    assert found.samples.time.tolist() == [0.0, 30.0, 60.0, 90.0, 120.0, 150.0]  # seconds of the city
    assert (found.samples.load[0] * 30).tolist() == pytest.approx([1_900.0, 1_000.0])  # and bytes in each of them
    assert found.samples.subscribers[0].tolist() == [7, 3]
    assert [(each.time, each.source, each.target, each.reason) for each in found.migrations] == [
        (30.0, 0, 1, "LDM"),
        (60.0, 0, 1, "GSH"),
    ]
    assert found.samples.migrations.tolist() == [0, 1, 2, 2, 2, 2]
    later = live.read(history(2.0), log("LDM", "GSH"), 30.0, 1_003.5)  # the deployment was starting before that
    assert later.samples.time.tolist() == [15.0, 45.0] and not later.migrations


def judged(*, shuffled: bool) -> Outcome:
    runs = Runs((1,))
    for variant in live.VARIANTS:
        skew = 4.0 if variant.balancing == "no LB" else 1.2
        reasons = ["GSH"] if shuffled and "GSH" in variant.balancing else ["LDM"] * 2
        runs.keep(variant, 1, live.read(history(skew), log(*reasons), 30.0, 1_000.0))
    return live.outcome(runs, [FACTS] * len(live.VARIANTS), 10, 30.0)


def test_live_runs_are_judged_and_drawn_like_simulated_ones(tmp_path):
    found = judged(shuffled=True)
    says = [check.says for check in found.checks]
    assert says[0] == "it is extremely skewed (cov > γ = 0.5)"
    assert says[-2:] == ["LDM + GSH: the shuffle comes early", "after it, fewer migrations than with LDM alone"]
    assert not any("peal" in each for each in says)  # the paper does not mention it
    assert found.verdict is Verdict.REPRODUCED and found.checks[0].often == "in one run"
    assert "±" not in str(found.rows) and "30 times as fast" in found.remarks[0]
    assert found.data["load"] and len({len(each) for each in found.data.values()}) == 1
    written = write([found], tmp_path, title=live.TITLE)
    assert {path.name for path in written} >= {"D-proto.parquet", "D-proto.png", "D-proto-metrics.png", "D-proto.html"}
    assert "<h1>DEBS 2019, the prototype live</h1>" in (tmp_path / "index.html").read_text()


def test_without_a_shuffle_there_is_no_check_of_the_time_after_it():
    found = judged(shuffled=False)
    assert found.checks[-1].says == "LDM + GSH: the shuffle comes early" and not found.checks[-1].mostly
    assert found.verdict is Verdict.DIRECTION


def test_live_runs_scale_the_simulated_settings_to_a_faster_city():
    _, ldm, _, shuffled, peal = (live.settings(variant, 400, 10.0) for variant in live.VARIANTS)
    assert ldm.settings == {"alpha": 0.15, "beta": 300e3} and ldm.placement == "nearest"
    assert shuffled.settings == {"scheme": "ldm", "alpha": 0.15, "beta": 300e3, "gamma": 0.5, "theta": 300e3}
    assert (ldm.balance_every, ldm.limits.cool_down, ldm.limits.migration_timeout) == (1.0, 0.0, 45.0)
    assert live.settings(live.VARIANTS[1], 40, 10.0).settings["beta"] == 30e3
    assert peal.settings == {"mode": "repair"} and peal.limits == CoordinatorLimits()
