from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tocsin.cli.demo import script
from tocsin.cluster.parser import iter_statements
from tocsin.cluster.statements import CreateChannel

PERIODS = {
    "EmergenciesOfType": 10,
    "EmergenciesAtLocation": 20,
    "EmergenciesNearMe": 10,
    "EmergenciesOfTypeNearMe": 10,
    "EmergenciesOfTypeAtLocation": 30,
    "EmergenciesOfTypeWithShelterNearMe": 10,
    "EmergenciesOfTypeAtLocationWithShelter": 30,
}


def channels(text: str) -> dict[str, float | None]:
    statements = [parsed.statement for parsed in iter_statements(text)]
    return {each.name: each.period for each in statements if isinstance(each, CreateChannel)}


def test_the_script_has_the_seven_channels_with_their_periods():
    assert channels(script()) == PERIODS


@pytest.mark.parametrize("speed", [0.5, 4, 100])
def test_speed_divides_the_periods(speed):
    assert channels(script(speed)) == {name: pytest.approx(period / speed) for name, period in PERIODS.items()}


def start(folder, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tocsin.cli", "demo", "--people", "20", *options],
        env={**os.environ, "TMPDIR": str(folder), "COLUMNS": "160"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def children(parent: int) -> list[int]:
    """By the parent that every process names; a kernel's list of children may leave some out."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            fields = status.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append(int(status.parent.name))
    return found


def test_the_demo_runs_prints_results_and_leaves_nothing_behind(tmp_path):
    process = start(tmp_path, "--seconds", "8", "--speed", "10", "--rate", "30")
    output, _ = process.communicate()
    assert process.returncode == 0, output
    summary = output.partition("What the channels did")[2]
    for name in PERIODS:
        assert name in summary
    assert "results in" in output
    assert "failing" not in output
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tocsin")] == []


def test_an_interrupted_demo_ends_its_cluster_and_leaves_nothing_behind(tmp_path):
    process = start(tmp_path, "--seconds", "600")
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith("Feeding"):
            (cluster,) = children(process.pid)
            process.send_signal(signal.SIGINT)
    assert process.wait() == 0, "".join(seen)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tocsin")] == []
    with pytest.raises(ProcessLookupError):
        os.kill(cluster, 0)
