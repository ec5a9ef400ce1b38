from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from rich.console import Console

from served import environment, tocsin
from tocsin.cli.up import Progress, run_script
from tocsin.local import LocalDeployment

sys.path.append(str(Path(__file__).parent.parent / "local"))

from deployment_process import options


class Up:
    """``tocsin up`` in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "tocsin.cli", "up", "--json", "--port", "0", "--brokers", "1", *options]
        env = environment(TOCSIN_BRIEF="true")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=folder)

    def event(self, name: str) -> dict[str, Any]:
        assert self.process.stdout is not None and self.process.stderr is not None
        for line in self.process.stdout:
            said: dict[str, Any] = json.loads(line)
            if said["event"] == name:
                return said
        raise AssertionError(self.process.stderr.read().decode())

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=300)
        return self.process.returncode, errors.decode()


def test_up_runs_scripts_and_leaves_only_its_home(tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_text("CREATE DATASET Kept (a int);\nINSERT INTO Kept VALUES (7), (8);\n")
    (tmp_path / "tocsin.toml").write_text('master = "local[1]"\nport = 1\n')
    up = Up(tmp_path, "--sql", "script.sql", "--ready-file", "ready.json", "--config", "tocsin.toml")
    try:
        assert up.event("step")["step"] == "script.sql: 2 statements run"
        ready = up.event("ready")
        assert json.loads((tmp_path / "ready.json").read_text())["cluster"] == ready["cluster"]
        found = tocsin("query", "SELECT sum(a) AS s FROM Kept", "--json", TOCSIN_URL=ready["cluster"])
        assert json.loads(found.stdout) == [{"s": 15}]
        assert httpx.get(ready["cluster"] + "/readyz", timeout=60).json()["master"] == "local[1]"
        scratch = {path.name.partition("-")[0] for path in (tmp_path / "tocsin-home" / "tmp").iterdir()}
        assert {"spark", "blockmgr"} <= scratch, (
            "what a JVM that is killed leaves is in the home, and gone with the next start"
        )
    finally:
        ended = up.end()
    assert ended == (0, "")
    assert {path.name for path in tmp_path.iterdir()} == {"script.sql", "tocsin.toml", "tocsin-home"}


def test_an_error_in_a_script_has_its_place_and_the_corrected_script_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "CREATE DATASET A (a int);\nCREATE DATASET A (b int);\nCREATE DATASET C (c int);\n"
    progress = Progress(Console(), json=True)
    with LocalDeployment(options(tmp_path)) as deployment:
        with pytest.raises(typer.Exit):
            run_script(deployment, "a.sql", wrong, progress, json=False)
        assert "a.sql:2:1" in capsys.readouterr().err
        run_script(deployment, "a.sql", wrong.replace("DATASET A (b", "DATASET B (b"), progress, json=False)
        assert json.loads(capsys.readouterr().out)["step"] == "a.sql: 2 statements run"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--brokers", "0"], 2, "greater than or equal to 1"),
        (["--brokers", "many"], 2, "--brokers"),
        (["--port", "-1"], 2, "greater than or equal to 0"),
        (["--port", "65001"], 2, "less than or equal to 65000"),
        (["--sql", "missing.sql"], 1, "cannot read missing.sql"),
        (["--sql", "wrong.sql"], 1, "wrong.sql:1:8"),
        (["--sql", "latin.sql"], 1, "latin.sql is not UTF-8"),
        (["--home", "wrong.sql"], 1, "cannot write to"),
        (["--config", "missing.toml"], 1, "cannot read the configuration missing.toml"),
        (["--config", "wrong.toml"], 1, "the configuration is wrong"),
        (["--cities", "2"], 2, "No such option"),
    ],
)
def test_errors_are_shown_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.sql").write_text("CREATE NONSENSE;")
    (tmp_path / "wrong.toml").write_text("colour = 'red'")
    (tmp_path / "latin.sql").write_bytes(b"-- \xe9\n")
    found = tocsin("up", "--port", "0", *words) if "--port" not in words else tocsin("up", *words)
    assert found.returncode == code
    assert message in found.stderr.decode()
    assert "Traceback" not in found.stderr.decode()
    assert not (tmp_path / "tocsin-home").exists()


def test_too_little_memory_is_an_error_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = tocsin("up", TOCSIN_DRIVER_MEMORY="9000g")
    assert found.returncode == 1
    assert "too little memory" in found.stderr.decode() and "TOCSIN_DRIVER_MEMORY=1g" in found.stderr.decode()
    assert list(tmp_path.iterdir()) == []
