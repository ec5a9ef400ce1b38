"""The demo as a user runs it: all processes, Spark too, for a short while."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from served import environment, tocsin
from tocsin.cli.demo import default_speed, speed_remark
from tocsin.demo.application import periods

sys.path.append(str(Path(__file__).parent.parent / "local"))

from deployment_process import descendants, wait_for_end

PERIODS = {
    "EmergenciesOfType": 10,
    "EmergenciesAtLocation": 20,
    "EmergenciesNearMe": 10,
    "EmergenciesOfTypeNearMe": 10,
    "EmergenciesOfTypeAtLocation": 30,
    "EmergenciesOfTypeWithShelterNearMe": 10,
    "EmergenciesOfTypeAtLocationWithShelter": 30,
}


def test_the_script_has_the_seven_channels_with_their_periods() -> None:
    assert periods() == PERIODS


@pytest.mark.parametrize("speed", [0.5, 4, 60])
def test_speed_divides_the_periods(speed: float) -> None:
    expected = {name: pytest.approx(period / speed, abs=1e-6) for name, period in PERIODS.items()}
    assert periods(speed) == expected


@pytest.mark.parametrize(("people", "speed"), [(1, 5), (400, 5), (1_000, 5), (2_000, 2.5), (5_000, 1), (200_000, 1)])
def test_the_default_speed_is_lower_with_more_simulated_users(people: int, speed: float) -> None:
    assert default_speed(people) == speed


@pytest.mark.parametrize(
    ("people", "speed", "said"),
    [
        (400, None, ""),
        (20_000, None, "the city is slower, --speed 1,"),
        (400, 5, ""),
        (20_000, 2, ""),
        (20_000, 10, "more than this machine can do"),
        (400, 60, "more than this machine can do"),
    ],
)
def test_a_speed_that_is_not_the_default_has_a_remark(people: int, speed: float | None, said: str) -> None:
    remark = speed_remark(people, speed)
    assert said in remark and bool(said) == bool(remark)


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tocsin.cli", "demo", "--brokers", "2", "--port", "0", *options],
        env=environment(TMPDIR=str(folder), COLUMNS="80", TOCSIN_BRIEF="true"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_demo_shows_notifications_until_ctrl_c_and_leaves_no_files(tmp_path: Path) -> None:
    process = start(tmp_path, "--subscribers", "30", "--speed", "20", "--stay")
    assert process.stdout is not None
    seen, processes = [], set()
    for line in process.stdout:
        seen.append(line)
        if line.startswith("The page: "):
            page = httpx.get(line.removeprefix("The page: ").strip(), timeout=60).text
            assert '<meta name="features" content="local city">' in page
        if line.startswith("First notification"):
            processes = descendants(process.pid)
            process.send_signal(signal.SIGINT)
    output = "".join(seen)
    assert process.wait() == 0, output
    for step in ("city ", "coordinator ", "broker-1 ", "broker-2 ", "Spark ", "application ", "people "):
        assert f"✓ {step}" in output
    summary = output.partition("What the channels did")[2]
    assert all(f" {name} " in summary for name in PERIODS), "whole names in 80 columns"
    assert " notifications with " in summary and "failing" not in summary
    assert len(processes) >= 6
    wait_for_end(processes)
    assert list(tmp_path.glob("tocsin-*")) == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--subscribers", "0"], 2, "--subscribers"),
        (["--brokers", "0"], 2, "--brokers"),
        (["--speed", "0"], 2, "--speed"),
        (["--speed", "fast"], 2, "--speed"),
        (["--seed", "-1"], 2, "--seed"),
        (["--seconds", "0"], 2, "--seconds"),
        (["--seconds", "5", "--stay"], 1, "contradict"),
        (["--port", "65001"], 2, "--port"),
        (["--home", "file"], 1, "cannot write to"),
    ],
)
def test_errors_are_shown_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    found = tocsin("demo", *words)
    assert found.returncode == code
    assert message in found.stderr.decode() and "Traceback" not in found.stderr.decode()
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208


@pytest.mark.slow
def test_the_statistics_are_printed_as_json(tmp_path: Path) -> None:
    words = ["--subscribers", "60", "--speed", "10", "--seconds", "60", "--strategy", "multistage", "--json"]
    output, _ = start(tmp_path, *words).communicate()
    facts = json.loads(output.splitlines()[-1])
    assert facts["options"]["strategy"] == "multistage" and facts["options"]["placement"] == "nearest"
    assert facts["people_connected"] == 60 and facts["people_reached"] > 10
    assert facts["notifications"] > 0 and facts["latency_ms"]["count"] > 0
    assert {each["channel"] for each in facts["channels"]} == set(PERIODS)
