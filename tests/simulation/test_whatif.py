"""``tocsin simulate scenario.toml``: its answer, and its errors for an invalid file."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tocsin.cli.main import run
from tocsin.cli.whatif import show
from tocsin.experiments.whatif.answer import Candidate, Found, calmer, candidates, enough, growth, workload
from tocsin.experiments.whatif.scenario import line_of, load

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "scenario.toml"

SMALL = """
minutes = 2
[population]
subscribers = 40
[interests]
subscriptions = 20
channels = 2
each = [2, 5]
[rates]
bytes_per_second = 1_000
[brokers]
count = [4, 1]
bytes_per_second = 150_000
[compare]
strategies = ["none", "ldm"]
placements = ["round-robin"]
alpha = [0.1, 0.3]
"""


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        run([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.toml"
    path.write_text(SMALL)
    return path


def test_the_example_answers_how_many_brokers_are_enough(capsys, tmp_path):
    page = tmp_path / "answer.html"
    assert call("simulate", EXAMPLE, "--out", page) == 0
    said = capsys.readouterr().out
    shown = "3 brokers are enough with nearest placement and peal"
    assert shown in said and shown in (EXAMPLE.parent.parent / "docs" / "how-to" / "plan-a-network.md").read_text()
    text = page.read_text()
    assert "Busiest broker" in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_every_candidate_is_tried_and_the_fewest_brokers_win(scenario, capsys):
    assert call("simulate", "run", scenario, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    tried = [(each["brokers"], each["strategy"], each["alpha"]) for each in said["candidates"]]
    assert tried == [(n, *how) for n in (1, 4) for how in (("none", None), ("ldm", 0.1), ("ldm", 0.3))]
    by_count = {each["brokers"]: each["busiest"] for each in said["candidates"]}
    assert by_count[1] > 0.8 >= said["answer"]["busiest"] and said["answer"]["brokers"] == 4
    assert len({each["deliveries"] for each in said["candidates"]}) == 1  # the same people, the same results


def test_the_command_exits_with_1_if_no_candidate_is_enough(scenario, capsys):
    scenario.write_text(SMALL.replace("150_000", "3_000"))
    assert call("simulate", scenario) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("None is enough: even of 4 brokers with round-robin placement and ldm, α 0.1 ")
    assert last.endswith(", above 80%. Try 96 and more.")


def made(brokers: int, busiest: float, migrations: int, load: list[float]) -> Found:
    """The outcome of a candidate."""
    samples = SimpleNamespace(time=np.arange(1.0, len(load) + 1), maximum=np.array(load))
    run: Any = SimpleNamespace(samples=samples)
    return Found(Candidate(brokers, "nearest", "peal", None), busiest, 0.1, migrations, run)


def test_a_candidate_with_far_fewer_migrations_is_named_too(scenario, capsys):
    flat = [0.5] * 8
    best, dear, calm = made(3, 0.7, 100, flat), made(4, 0.6, 60, flat), made(5, 0.5, 40, flat)
    file = load(scenario)
    assert enough(file, [best, dear, calm]) is best and calmer(file, [best, dear, calm], best) is calm
    assert calmer(file, [best, dear], best) is None
    show(file, [best, dear, calm], best)
    with_peal = "brokers are enough with nearest placement and peal"
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"3 {with_peal}: the busiest reaches 70% of at most 80%, with 100 migrations.",
        f"With fewer migrations 5 {with_peal}: 50%, with 40 migrations.",
    ]


def test_a_load_that_still_grows_is_reported(scenario, capsys):
    rest, grows = made(1, 0.7, 1, [0.1, 0.4] + [0.5] * 6), made(1, 0.7, 1, [0.1, 0.1, 0.1, 0.2, 0.2, 0.4, 0.4, 0.4])
    assert growth(rest) == 0.0 and growth(grows) > 0.5
    show(load(scenario), [grows], grows)
    first, last = capsys.readouterr().out.splitlines()[-2:]
    assert first.startswith("1 broker is enough") and first.endswith("with 1 migration.")
    assert last.startswith("The load still grew at the end, by ")


def test_the_population_does_not_depend_on_the_brokers(scenario):
    found = load(scenario)
    one, four = (workload(found, brokers) for brokers in (1, 4))
    assert one.people_at.tolist() == four.people_at.tolist() and one.wanted.tolist() == four.wanted.tolist()
    assert len(candidates(found)) == 6 and enough(found, []) is None


BAD = {
    "no such key": ("subscribers = 40", "subscriber = 40", "population", "subscriber"),
    "no such table": ("[compare]", "[comparison]", "comparison", "there are: population"),
    "missing key": ("subscribers = 40", "", "population: 'subscribers' is missing", "it takes: subscribers"),
    "missing table": ("[rates]\nbytes_per_second = 1_000", "", "'rates' is missing", "it takes"),
    "text for a number": (
        "subscribers = 40",
        'subscribers = "many"',
        "population.subscribers",
        "expected a whole number, got a",
    ),
    "a number for a list": (
        "count = [4, 1]",
        "count = 4",
        "brokers.count",
        "expected a list in [], got a whole number",
    ),
    "a fraction of a person": (
        "subscribers = 40",
        "subscribers = 4.5",
        "population.subscribers",
        "expected a whole number, got a",
    ),
    "more than there is": (
        "bytes_per_second = 150_000",
        "bytes_per_second = inf",
        "brokers.bytes_per_second",
        "<= 1000000000000000",
    ),
    "no subscribers": ("subscribers = 40", "subscribers = 0", "population.subscribers", ">= 1"),
    "no broker": ("count = [4, 1]", "count = [0]", "brokers.count", ">= 1"),
    "nothing to try": ("count = [4, 1]", "count = []", "brokers.count", "length >= 1"),
    "no capacity": ("bytes_per_second = 150_000", "bytes_per_second = -1", "brokers.bytes_per_second", "> 0"),
    "more than all": ("each = [2, 5]", "each = [2, 50]", "interests.each", "a subscriber cannot have 50 of 20"),
    "upside down": ("each = [2, 5]", "each = [5, 2]", "interests.each", "the fewest, 5"),
    "three numbers": ("each = [2, 5]", "each = [2, 5, 6]", "interests.each", "length 2"),
    "channels without subscriptions": ("channels = 2", "channels = 30", "interests.channels", "there are 20"),
    "unknown strategy": ('"ldm"', '"best"', "compare.strategies", "there are: none, ldm"),
    "unknown placement": ('"round-robin"', '"anywhere"', "compare.placements", "there are: nearest"),
    "no time": ("minutes = 2", "minutes = 0", "minutes", ">= 2"),
    "not TOML": ("minutes = 2", "minutes = ", "is not TOML", "line 2"),
}


@pytest.mark.parametrize(("old", "new", "key", "said"), BAD.values(), ids=list(BAD))
def test_the_error_of_an_invalid_scenario_names_the_key(old, new, key, said, scenario, capsys):
    assert old in SMALL
    scenario.write_text(SMALL.replace(old, new))
    assert call("simulate", scenario) == 1
    error = capsys.readouterr().err
    assert key in error and said in error and "Traceback" not in error and len(error.splitlines()) <= 3


def test_the_error_of_an_invalid_scenario_names_the_line(scenario, capsys):
    scenario.write_text(SMALL.replace("subscribers = 40", "subscribers = 0"))
    assert call("simulate", scenario) == 1
    assert f"{scenario}:4: population.subscribers" in capsys.readouterr().err
    assert line_of(SMALL, ["brokers", "count"]) == 12 and line_of(SMALL, ["nothing"]) == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["missing.toml"], 1, "cannot read missing.toml"),
        (["run"], 2, "SCENARIO.TOML"),
        (["run", EXAMPLE, "--out", "answer.pdf"], 2, ".html or .png"),
        (["run", EXAMPLE, "--out", "nowhere/answer.html"], 1, "the folder nowhere does not exist"),
    ],
)
def test_an_invalid_simulate_command_prints_an_error(words, code, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("simulate", *words) == code
    assert said in capsys.readouterr().err
