"""``tocsin reproduce``: its runs, its output and its files."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from tocsin.cli import reproduce
from tocsin.cli.main import run
from tocsin.experiments.chart import Chart, Panel
from tocsin.experiments.debs2019.fewest import fewest, final
from tocsin.experiments.debs2019.figures import FIGURES
from tocsin.experiments.debs2019.proto import CHANNELS, EAST, METRES, NORTH, SOUTH, WEST, asked, prototype, traverse
from tocsin.experiments.debs2019.summary import maximum
from tocsin.experiments.debs2019.variants import Runs, Variant, workload
from tocsin.experiments.markdown import claims, mark
from tocsin.experiments.outcome import Check, Outcome, Spread, Verdict, judge, number
from tocsin.experiments.page import embedded, page, section
from tocsin.simulation.flow.debs import Size, debs_simulation, raises
from tocsin.simulation.flow.decision_makers import nearest

PNG = b"\x89PNG\r\n\x1a\n"


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        run([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory):
    """One figure of the prototype and one of the large simulation, both small."""
    out = tmp_path_factory.mktemp("reproduced")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert call("reproduce", "d-8", "D-14", "--small", "--seeds", 1, "--json", "--out", out) == 0
    return out, json.loads(output.getvalue())


def test_every_claim_has_its_checks_and_a_verdict(reproduced):
    _, report = reproduced
    assert [each["id"] for each in report["figures"]] == ["D-8", "D-14"]
    eight = report["figures"][0]
    assert "extremely skewed" in eight["claim"] and eight["verdict"] in {each.value for each in Verdict}
    assert all(check["says"] and check["found"] and len(check["holds"]) == 1 for check in eight["checks"])
    assert [each["variant"] for each in eight["variants"]][:4] == ["NR + no LB", "NR + LDM", "NR + SDM", "NR + peal"]


def test_nearest_placement_is_skewed_and_migration_repairs_it(reproduced):
    _, report = reproduced
    assert report["figures"][0]["verdict"] == "reproduced"


def test_every_figure_leaves_data_charts_and_a_page(reproduced):
    out, report = reproduced
    for name in ("D-8", "D-14"):
        assert (out / f"{name}.png").read_bytes().startswith(PNG)
        table = pq.read_table(out / f"{name}.parquet")
        assert set(table.column("balancing").to_pylist()) >= {"LDM", "peal"}
        assert table.num_rows > 500
    assert report["page"] == str(out / "index.html")


def test_the_page_embeds_every_chart_and_loads_nothing(reproduced):
    out, _ = reproduced
    text = (out / "index.html").read_text()
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//|@import|url\(|fetch\(|XMLHttp""", text)
    images = re.findall(r'<img alt="(.+?)" src="data:image/png;base64,(.*?)">', text)
    files = [out / f"{name}.png" for name in ("D-8", "D-14")]
    assert [base64.b64decode(data) for _, data in images] == [file.read_bytes() for file in files]
    assert "prefers-color-scheme" in text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["reproduce"], 2, "FIGURE"),
        (["reproduce", "D-99"], 1, "there are: D-5, D-6"),
        (["reproduce", "D-5", "--seeds", "0"], 2, "--seeds"),
        (["reproduce", "D-5", "--seeds", "many"], 2, "--seeds"),
        (["reproduce", "D-5", "--jobs", "-1"], 2, "--jobs"),
        (["reproduce", "D-proto", "--live", "--most", "-1"], 2, "--most"),
        (["reproduce", "D-proto", "--live", "--most", "0", "--out", "EMPTY"], 1, "--most"),
        (["reproduce", "D-14", "--small", "--out", "FILE"], 1, "--out"),
    ],
)
def test_an_invalid_reproduce_command_prints_an_error_in_two_lines(words, code, message, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    places = {"FILE": file, "EMPTY": tmp_path}
    assert call(*[str(places.get(word, word)) for word in words]) == code
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error and len(error.splitlines()) <= 3


def test_a_missing_library_is_reported_before_any_work(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert call("reproduce", "all", "--out", tmp_path) == 1
    assert "tocsin[experiments]" in capsys.readouterr().err


def test_every_figure_of_the_paper_includes_our_strategy():
    assert list(FIGURES) == [f"D-{n}" for n in (5, 6, 7, 8, 9, 10)] + ["D-10s"] + [f"D-{n}" for n in (11, 12, 13, 14)]
    for figure in FIGURES.values():
        assert any(variant.balancing == "peal" for variant in figure.variants), figure.id


def test_the_requested_volume_of_a_channel_equals_the_result_of_its_query():
    where = np.array([[60.18, 24.93], [60.18, 24.94], [60.21, 25.04]])
    kind, field, volume = np.array([1, 2, 1]), np.array([3, 3, 9]), np.array([100, 20, 3])
    people = np.array([[60.18, 24.93]])

    def ask(channel: int, *interest: int) -> int:
        return int(asked(CHANNELS[channel], np.array([(channel, *interest)]), kind, field, volume, where, people)[0])

    assert ask(0, 1, -1, -1) == 103  # of one kind, anywhere
    assert ask(1, -1, 3, -1) == 120  # at a place, of any kind
    assert ask(2, 8, -1, 0) == 120  # any kind, near
    assert ask(3, 1, -1, 0) == 100
    assert ask(4, 2, 3, -1) == 20
    assert ask(4, 2, 9, -1) == 0


def test_the_prototype_has_the_papers_shape():
    work = prototype(1)
    assert (work.brokers, work.subscribers) == (5, 400)
    assert 2_000 < len(work.wanted) < 2_500 and 500 < work.backs < 750
    assert work.login.max() <= 240 <= work.made.min() and work.made.max() <= 480
    assert work.ended.min() > 480 and 0.05 < np.isfinite(work.ended).mean() < 0.15
    assert work.logout.min() > 480 and 0.05 < np.isfinite(work.logout).mean() < 0.15
    count = np.bincount(nearest(work.people_at, work.brokers_at), minlength=5)
    assert count.std() / count.mean() > 0.5


def test_figures_share_a_run():
    made = []
    runs = Runs((1,), small=True, progress=lambda variant, seed, share: made.append(share))
    variant = Variant("proto", "RR", "no LB")
    assert runs.of(variant)[0] is runs.one(variant, 1) and made.count(0.0) == 1 and made[-1] == 1.0
    assert workload("proto", 1, True).subscribers == 200


def test_runs_are_the_same_in_parallel_processes():
    reported = []
    serial, parallel = Runs((1, 2), small=True), Runs((1, 2), small=True, progress=lambda *run: reported.append(run))
    variant = Variant("proto", "RR", "LDM")
    parallel.make([variant], 2)
    assert sorted(reported, key=lambda each: each[1]) == [(variant, 1, 1.0), (variant, 2, 1.0)]
    for a, b in zip(serial.of(variant), parallel.of(variant), strict=True):
        assert a.migrations == b.migrations and (a.samples.load == b.samples.load).all()
    assert len(reported) == 2


@pytest.mark.parametrize(
    ("holds", "direction", "verdict"),
    [
        ((True,) * 4 + (False,), True, Verdict.REPRODUCED),
        ((True,) * 3 + (False,) * 2, True, Verdict.DIRECTION),
        ((True,) + (False,) * 4, True, Verdict.NOT),
        ((False,) * 5, False, Verdict.DIRECTION),
        ((True,) * 2 + (None,) * 3, True, Verdict.NO_EFFECT),
        ((None,) * 5, True, Verdict.NO_EFFECT),
        ((False,) + (None,) * 4, True, Verdict.NOT),
        ((True,) * 3 + (None,) * 2, True, Verdict.REPRODUCED),
        ((True,) * 2 + (False,) + (None,) * 2, True, Verdict.DIRECTION),
    ],
)
def test_the_verdict_follows_from_the_seeds(holds, direction, verdict):
    sure = Check("sure", "", (True,) * 5)
    assert judge([sure, Check("asked", "", holds, direction)]) is verdict


def test_no_verdict_depends_on_a_check_of_the_set_up():
    sure, setup = Check("sure", "", (True,)), Check("skewed", "", (False,), setup=True)
    assert judge([sure, setup]) is Verdict.REPRODUCED and judge([setup]) is Verdict.NO_EFFECT
    assert mark(setup) == "set-up:" and mark(Check("nothing to repair", "", (None,))) == "–"


@pytest.mark.parametrize(
    ("holds", "often"),
    [
        ((True,), "in one run"),
        ((False,), "not in one run"),
        ((None,), "no seed has an effect to show"),
        ((True, False), "1 of 2 seeds"),
        ((True, None), "1 of 1 seeds with an effect to show"),
    ],
)
def test_a_check_says_in_how_many_seeds_it_holds(holds, often):
    assert Check("", "", holds).often == often


def test_the_verdict_names_the_values_that_the_paper_does_not_give():
    outcome = Outcome("D-0", "", "c", [Check("s", "f", (True,))], [], [], [], depends="depends on θ = 30 kB/s")
    assert "| **reproduced**; depends on θ = 30 kB/s |" in claims([outcome])
    assert "The verdict: depends on θ = 30 kB/s." in section(outcome, {})
    for name in ("D-9", "D-11"):
        assert "θ = 30 kB/s, which the paper does not give" in FIGURES[name].depends


def test_eight_publishers_traverse_the_city():
    ways = traverse(np.random.default_rng(1), 600)
    assert ways.shape == (601, 8, 2)
    step = np.hypot(*np.moveaxis(np.diff(ways, axis=0) * METRES, 2, 0))
    assert step.max() == pytest.approx(25.0) and np.median(step) == pytest.approx(25.0)
    assert (ways >= (SOUTH, WEST)).all() and (ways <= (NORTH, EAST)).all()


def test_the_channels_of_the_simulation_differ_in_the_size_of_their_notifications():
    size = Size(backs=1_000, seconds=600.0, raised=1.0)
    volumes: dict[int, list[float]] = {}
    for execution in debs_simulation(1, size).executions:
        volumes.setdefault(int(execution.subscriptions[0]), []).append(float(execution.sizes.mean()))
    means = [float(np.mean(volumes[first])) for first in sorted(volumes)]
    rates = [mean / size.periods[n % 5] for n, mean in enumerate(means)]
    assert len(rates) == 10 and rates == sorted(rates)
    assert rates[0] == pytest.approx(12_500, rel=0.1) and rates[-1] == pytest.approx(37_500, rel=0.1)


def test_a_quarter_of_all_subscriptions_is_raised_every_minute():
    begin, end, which = raises(np.random.default_rng(1), Size())
    assert len(which) == 30 * 250
    for minute in range(30):
        chosen = slice(minute * 250, (minute + 1) * 250)
        assert len(set(which[chosen].tolist())) == 250  # also those that are raised already
        assert (begin[chosen] >= minute * 60).all() and (begin[chosen] <= (minute + 3) * 60).all()
    assert (end - begin).min() >= 240 and (end - begin).max() <= 360


def test_the_fewest_migrations_are_counted_for_the_state_without_balancing():
    work, run = workload("proto", 1, True), Runs((1,), small=True).one(Variant("proto", "NR", "no LB"), 1)
    top = float(final(work, run).loads.maximum)
    assert top == pytest.approx(maximum(run), rel=0.1)
    counts = [fewest(work, run, top * share) for share in (1.0, 0.9, 0.7, 0.5)]
    assert counts[0] == 0 < counts[1] < counts[2] < counts[3] < work.subscribers


def test_a_spread_is_mean_and_deviation():
    assert str(Spread((1.0, 3.0))) == "2.00 ± 1.00"
    assert [number(value) for value in (0, 0.1234, 1.5, 12.34, 1234.5)] == ["0", "0.123", "1.50", "12.3", "1,234"]


def test_html_in_labels_is_escaped():
    text = page("<i>", "a & b", embedded(Chart("x", '"><b>', [Panel("<u>", "", "", [])]), b""))
    assert not re.search("<[ibu]>", text) and "a &amp; b" in text


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_all_figures_at_the_papers_size(tmp_path, capsys):
    """With seed 1. P-T1 contradicts the paper, for a reason that its page explains."""
    assert call("reproduce", "all", "--seeds", 1, "--jobs", 0, "--json", "--out", tmp_path) == 0
    found = {each["id"]: each["verdict"] for each in json.loads(capsys.readouterr().out)["figures"]}
    reproduced = {"D-8", "D-9", "D-10", "D-10s", "D-11", "D-12", "D-13"}
    assert {name for name, verdict in found.items() if verdict == "reproduced"} >= reproduced
    assert found["D-14"] == "direction only" and found["D-7"] == "no effect to show"
    key_spaces = {"P-2": "direction only", "P-T1": "not reproduced", "P-T2": "reproduced"}
    assert {name: found[name] for name in key_spaces} == key_spaces


def test_the_progress_of_all_runs_adds_up_to_the_total(monkeypatch):
    seen: list[tuple[float, str]] = []

    @contextlib.contextmanager
    def track(total):
        seen.append((total, "in all"))
        yield lambda done, what: seen.append((done, what))

    monkeypatch.setattr(reproduce, "track", track)
    runs, figures = Runs((1, 2)), [FIGURES["D-9"], FIGURES["D-13"]]
    with reproduce.tracked(runs, figures):
        for variant in reproduce.compared(figures):
            for seed in runs.seeds:
                for share in (0.0, 0.5, 1.0, 1.0):  # both the simulation and its caller report the end
                    runs.progress(variant, seed, share)
    (total, _), *updates = seen
    assert [done for done, _ in updates] == sorted(done for done, _ in updates)
    assert updates[-1] == (pytest.approx(total), f"{FIGURES['D-13'].variants[-1].name}, seed 2")


@pytest.mark.parametrize("words", [["D-proto"], ["D-8", "--live"], ["D-proto", "D-8", "--live"]])
def test_the_live_option_is_for_the_prototype_alone(words, capsys):
    assert call("reproduce", *words) == 1
    assert "tocsin reproduce D-proto --live" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_the_prototype_live_on_real_processes(tmp_path, capsys):
    words = ["--live", "--speed", 30, "--people", 40, "--minutes", 10]
    assert call("reproduce", "D-proto", *words, "--most", 2, "--json", "--out", tmp_path) == 0
    assert len(json.loads(capsys.readouterr().out)["figures"][0]["variants"]) == 2
    assert call("reproduce", "D-proto", *words, "--most", 1, "--json", "--out", tmp_path) == 0
    (found,) = json.loads(capsys.readouterr().out)["figures"]
    assert [each["variant"] for each in found["variants"]] == ["NR + no LB", "NR + LDM", "NR + SDM"]
    assert all(int(each["notifications"].replace(",", "")) > 0 for each in found["variants"])
