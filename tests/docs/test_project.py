"""The project of ``tocsin init``: its README's commands, on a real data cluster and a real broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from shell import Shell

from served import tocsin


@pytest.mark.timeout(300)
def test_the_project_runs_and_notifies_a_subscriber(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "air"
    assert tocsin("init", str(folder)).returncode == 0

    def run(*command: str) -> str:
        ran = subprocess.run(command, cwd=folder, env=shell.env, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    assert run("tocsin", "sql", "app.sql").splitlines()[-1] == "channel BadAir created"
    assert run("tocsin", "sql", "app.sql").splitlines()[-1] == "channel BadAir existed already"
    subscribing = [sys.executable, "subscribe.py", "Turku", "--count", "1"]
    with subprocess.Popen(subscribing, cwd=folder, env=shell.env, stdout=subprocess.PIPE, text=True) as subscriber:
        assert subscriber.stdout is not None
        assert subscriber.stdout.readline() == "subscribed to air above 35 µg/m³ in Turku\n"
        assert run(sys.executable, "publish.py", "--count", "1") == "4 measurements published\n"
        notified = subscriber.stdout.read()
        assert subscriber.wait(60) == 0
    assert notified.startswith(("Old Bridge: ", "Castle Hill: "))
    assert "µg/m³, take it easy" in notified or "µg/m³, stay inside" in notified
    assert "Helsinki" not in notified and "Harbour" not in notified
    assert "1 row" in run("tocsin", "query", "SELECT execution FROM BadAirResults LIMIT 1")


@pytest.mark.parametrize("script", ["subscribe.py", "publish.py"])
def test_the_scripts_report_an_unreachable_broker(tmp_path: Path, script: str) -> None:
    assert tocsin("init", str(tmp_path / "air")).returncode == 0
    command = [sys.executable, script, "--broker", "http://127.0.0.1:1"]
    ran = subprocess.run(command, cwd=tmp_path / "air", capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (1, "")
    hint = "(start one with `tocsin up` or `tocsin broker`)"
    assert ran.stderr == f"error: no broker answers at http://127.0.0.1:1: connection refused {hint}\n"
