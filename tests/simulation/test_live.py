"""The live prototype: what it reads from the coordinator, and how the result is judged."""

from __future__ import annotations

import gzip

import pytest

from tocsin.config import CoordinatorLimits
from tocsin.errors import UserError
from tocsin.experiments.debs2019 import live
from tocsin.experiments.debs2019.variants import Variant
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


def record(variant: Variant, seed: int = 1, *, shuffled: bool = True, facts: dict[str, int] = FACTS) -> live.Record:
    """Nearest placement is skewed without balancing, and takes six migrations; the others take one."""
    near = variant.placement == "NR"
    skew = 4.0 if near and variant.balancing == "no LB" else 1.2
    reasons = ["LDM"] * (6 if near else 1)
    if near and shuffled and "GSH" in variant.balancing:
        reasons = ["GSH: placed again"]
    if variant.balancing == "no LB":
        reasons = []
    return live.Record(variant.name, seed, 10, 30.0, 3.0, 1_000.0, "a machine", history(skew), log(*reasons), facts)


def judged(*, shuffled: bool = True, seeds: int = 1, missing: tuple[str, ...] = ()) -> Outcome:
    there = [variant for variant in live.VARIANTS if variant.name not in missing]
    found = {(seed, each): record(each, seed, shuffled=shuffled) for seed in range(1, seeds + 1) for each in there}
    return live.outcome(found, seeds, 10, 30.0)


def test_live_runs_are_judged_and_drawn_like_simulated_ones(tmp_path):
    found = judged()
    says = [check.says for check in found.checks]
    assert says[0] == "it is extremely skewed (cov > γ = 0.5)" and found.checks[0].setup
    assert "after it, fewer migrations than with LDM alone" in says and "the shuffle is not invoked" in says
    assert "LDM: far more migrations than under RND and RR" in says
    assert not any("peal" in each for each in says)  # the paper does not mention it
    assert found.verdict is Verdict.REPRODUCED and found.checks[0].often == "in one run"
    assert len(found.rows) == 15 and "±" not in str(found.rows)
    assert found.remarks[0].startswith("15 of 15 runs, on a machine. The city runs 30 times as fast")
    assert found.data["load"] and len({len(each) for each in found.data.values()}) == 1
    written = write([found], tmp_path, title=live.TITLE)
    assert {path.name for path in written} >= {"D-proto.parquet", "D-proto.png", "D-proto-metrics.png", "D-proto.html"}
    assert "<h1>DEBS 2019, the prototype live</h1>" in (tmp_path / "index.html").read_text()


def test_several_live_runs_have_a_spread():
    found = judged(seeds=3)
    assert found.remarks[0].startswith("45 of 45 runs") and "±" in found.rows[1][1]
    assert {len(check.holds) for check in found.checks} == {3}


def test_without_a_shuffle_the_claim_about_it_fails():
    found = {check.says: check.mostly for check in judged(shuffled=False).checks}
    assert not found["LDM + GSH: the shuffle comes early"]
    assert not found["after it, fewer migrations than with LDM alone"]
    assert judged(shuffled=False).verdict is Verdict.NOT


def test_only_what_was_run_is_shown_and_judged():
    found = judged(missing=("NR + SDM", "RND + SDM", "RR + LDM + GSH"))
    assert [row[0] for row in found.rows] == [
        each.name for each in live.VARIANTS if each.name not in ("NR + SDM", "RND + SDM", "RR + LDM + GSH")
    ]
    says = [check.says for check in found.checks]
    assert "LDM: far more migrations than under RND and RR" in says
    assert not any("SDM" in each or "not invoked" in each for each in says)
    assert found.remarks[0].startswith("12 of 15 runs")


def test_a_seed_that_has_only_begun_is_left_out():
    both = {(seed, each): record(each, seed) for seed in (1, 2) for each in live.VARIANTS[: 15 if seed == 1 else 4]}
    found = live.outcome(both, 2, 10, 30.0)
    assert len(found.rows) == 15 and found.remarks[0].startswith("15 of 30 runs")
    assert {len(check.holds) for check in found.checks} == {1}


def test_an_interrupted_series_goes_on_where_it_was(tmp_path, monkeypatch):
    made = []

    def one(variant, people, speed, seed, minutes, progress):
        if len(made) == 4:
            raise KeyboardInterrupt
        made.append((variant.name, seed))
        return record(variant, seed)

    monkeypatch.setattr(live, "one", one)
    size = {"people": 10, "speed": 30.0, "minutes": 3.0}
    with pytest.raises(KeyboardInterrupt):
        live.live(tmp_path, **size)
    made.clear()
    assert len(live.live(tmp_path, **size, most=3).rows) == 7
    assert made == [(each.name, 1) for each in live.VARIANTS[4:7]]
    assert len(live.live(tmp_path, **size, most=0).rows) == 7
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".gz"] * 7


def test_runs_of_another_size_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "one", lambda variant, people, speed, seed, minutes, progress: record(variant, seed))
    live.live(tmp_path, people=10, speed=30.0, minutes=3.0, most=1)
    with pytest.raises(UserError, match="10 people, speed 30 and 3 minutes"):
        live.live(tmp_path, people=11, speed=30.0, minutes=3.0, most=1)


@pytest.mark.parametrize("content", [b"", b"not compressed", gzip.compress(b"[]"), gzip.compress(b"{")])
def test_a_file_that_is_not_a_run_is_refused(content, tmp_path):
    (tmp_path / "NR+noLB-1.json.gz").write_bytes(content)
    with pytest.raises(UserError, match="is not a run"):
        live.live(tmp_path, most=0)


def test_no_run_at_all_is_an_error(tmp_path):
    with pytest.raises(UserError, match="no runs to show"):
        live.live(tmp_path, most=0)


def test_live_runs_scale_the_simulated_settings_to_a_faster_city():
    _, ldm, _, shuffled, peal = (live.settings(variant, 400, 10.0) for variant in live.VARIANTS[:5])
    assert ldm.settings == {"alpha": 0.15, "beta": 300e3} and ldm.placement == "nearest"
    assert shuffled.settings == {"scheme": "ldm", "alpha": 0.15, "beta": 300e3, "gamma": 0.5, "theta": 300e3}
    assert (ldm.balance_every, ldm.limits.cool_down, ldm.limits.migration_timeout) == (1.0, 0.0, 45.0)
    assert live.settings(live.VARIANTS[1], 40, 10.0).settings["beta"] == 30e3
    assert peal.settings == {"mode": "repair"} and peal.limits == CoordinatorLimits()
