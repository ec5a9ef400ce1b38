"""``tocsin simulate content`` and ``tocsin simulate workload``, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tocsin.cli.main import run
from tocsin.overlay.content.clients import Clients

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "stock.workload"


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        run([str(word) for word in words])
    return int(ended.value.code or 0)


def test_a_campaign_prints_its_checks(capsys):
    assert call("simulate", "content", "--runs", "1", "--jobs", "1") == 0
    text = capsys.readouterr().out
    assert "promised deliveries checked" in text and "seeds with a violation" in text


def test_a_campaign_prints_json_for_programs(capsys):
    assert call("simulate", "content", "--runs", "1", "--seed", "5", "--jobs", "1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["runs"], found["violations"], found["details"]) == (1, [], [])
    assert found["promised"] > 0


def test_a_seed_can_be_traced_and_run_with_some_of_its_faults(capsys):
    assert call("simulate", "content", "--seed", "3", "--trace") == 0
    text = capsys.readouterr().out
    assert "FAULT" in text and "Hello" in text and "every promise kept" in text.splitlines()[-1]
    assert call("simulate", "content", "--seed", "3", "--only", "0") == 0
    part = capsys.readouterr().out.splitlines()
    assert part[0].startswith("fault 0: ") and "every promise kept" in part[1]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["content", "--runs", "0"], 2, "--runs"),
        (["content", "--seed", "-1"], 2, "--seed"),
        (["content", "--only", "a,b"], 1, "like --only 0,3,4"),
        (["content", "--only", "99"], 1, "fault 99"),
        (["content", "--nonsense"], 2, "--nonsense"),
        (["workload"], 2, "FILE"),
        (["workload", "nowhere.workload"], 1, "nowhere.workload cannot be read"),
        (["workload", str(EXAMPLE), "--seconds", "-1"], 2, "--seconds"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_wrong_options_are_reported(options, code, says, capsys):
    assert call("simulate", *options) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert says in shown.err and "Traceback" not in shown.err


def test_a_violation_is_printed_with_the_command_that_replays_it(monkeypatch, capsys):
    monkeypatch.setattr(Clients, "migrate", lambda self, role, at_once=False: None)
    assert call("simulate", "content", "--seed", "3", "--runs", "1", "--jobs", "1") == 1
    text = capsys.readouterr().out
    assert "seed 3 violates “clients are where their kind is served”" in text and "the end of its trace:" in text
    (replay,) = [line.split("replay: tocsin ")[1] for line in text.splitlines() if "replay:" in line]
    assert call(*replay.split()) == 1
    assert "violation: clients are where" in capsys.readouterr().out


def test_a_workload_prints_brokers_publishers_and_subscribers(capsys):
    assert call("simulate", "workload", EXAMPLE, "--seconds", "5") == 0
    text = capsys.readouterr().out
    assert "head" in text and "YHOO" in text and "symbol IN ('IBM', 'MSFT') AND low < 60" in text


def test_a_workload_prints_json_for_programs(capsys):
    assert call("simulate", "workload", EXAMPLE, "--seconds", "5", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["publishers"]] == ["P1", "P2", "P3"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"1.0 broker add B0 500 16 10\n2.0 publisher add P1 YHOO ten B0\n", "line 2: 'ten' is not a rate"),
        (b"\xff\xfe\x00", "not a text in UTF-8"),
        (b"", "no commands"),
    ],
)
def test_a_wrong_workload_is_reported(data, says, tmp_path, capsys):
    path = tmp_path / "wrong.workload"
    path.write_bytes(data)
    assert call("simulate", "workload", path) == 1
    shown = capsys.readouterr()
    assert says in shown.err and "Traceback" not in shown.err
