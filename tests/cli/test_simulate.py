"""``tocsin simulate faults``, as a user runs it."""

from __future__ import annotations

import json

import pytest

from served import tocsin
from tocsin.broker.core.replay import Replay
from tocsin.cli.main import run


def test_simulate_prints_its_checks_and_violations():
    ran = tocsin("simulate", "faults", "--runs", "3", "--jobs", "1")
    text = ran.stdout.decode()
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert "notifications checked" in text and "seeds with a violation" in text


def test_simulate_prints_json_for_programs():
    ran = tocsin("simulate", "faults", "--runs", "2", "--seed", "40", "--jobs", "1", "--json")
    found = json.loads(ran.stdout)
    assert (found["runs"], found["violations"], found["details"]) == (2, [], [])
    assert found["notifications"] > 0


def test_a_seed_can_be_traced_and_run_with_some_of_its_faults():
    whole = tocsin("simulate", "faults", "--seed", "11", "--trace").stdout.decode()
    assert "FAULT" in whole and "every promise kept" in whole.splitlines()[-1]
    part = tocsin("simulate", "faults", "--seed", "11", "--only", "0").stdout.decode().splitlines()
    assert part[0].startswith("fault 0: ") and "every promise kept" in part[1]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--runs", "0"], 2, "--runs"),
        (["--seed", "-1"], 2, "--seed"),
        (["--jobs", "-1"], 2, "--jobs"),
        (["--only", "a,b"], 1, "like --only 0,3,4"),
        (["--only", "99"], 1, "fault 99"),
        (["--nonsense"], 2, "--nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_options_are_reported(options, code, says):
    ran = tocsin("simulate", "faults", *options)
    assert (ran.returncode, ran.stdout) == (code, b"")
    assert says in ran.stderr.decode() and "Traceback" not in ran.stderr.decode()


def test_a_violation_is_printed_with_the_command_that_replays_it(monkeypatch, capsys):
    resume = Replay.resume

    def too_late(self, it, session, execution, out, *, quiet=False):
        resume(self, it, session, execution if quiet else execution + 1, out, quiet=quiet)

    monkeypatch.setattr(Replay, "resume", too_late)
    with pytest.raises(SystemExit) as ended:
        run(["simulate", "faults", "--seed", "2", "--runs", "1"])
    text = capsys.readouterr().out
    assert ended.value.code == 1
    assert "seed 2 violates “nothing is lost”" in text and "the end of its trace:" in text
    (replay,) = [line.split("replay: tocsin ")[1] for line in text.splitlines() if "replay:" in line]
    with pytest.raises(SystemExit) as ended:
        run(replay.split())
    assert ended.value.code == 1 and "violation: nothing is lost" in capsys.readouterr().out
