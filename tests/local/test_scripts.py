from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.errors import ParseError, UserError
from tocsin.local.scripts import Scripts

SCRIPT = "CREATE DATASET A (a int);\n-- a remark\nCREATE DATASET B\n  (b int);\nINSERT INTO A VALUES (1);\n"


def run(scripts: Scripts, script: str, most: int = 99) -> int:
    marks = scripts.remaining(script).marks[:most]
    for mark in marks:
        scripts.done(mark)
    return len(marks)


def test_executed_statements_are_skipped_after_a_restart(tmp_path: Path) -> None:
    assert run(Scripts(tmp_path), SCRIPT) == 3
    assert Scripts(tmp_path).remaining(SCRIPT).marks == []


def test_an_interrupted_script_continues_after_its_last_statement(tmp_path: Path) -> None:
    assert run(Scripts(tmp_path), SCRIPT, 1) == 1
    left = Scripts(tmp_path).remaining(SCRIPT)
    assert len(left.marks) == 2
    assert "DATASET A" not in left.text and "DATASET B" in left.text


def test_positions_in_the_script_do_not_change(tmp_path: Path) -> None:
    run(Scripts(tmp_path), SCRIPT, 2)
    left = Scripts(tmp_path).remaining(SCRIPT)
    assert left.text.index("INSERT") == SCRIPT.index("INSERT")
    assert left.text.count("\n") == SCRIPT.count("\n")


def test_a_changed_or_added_statement_is_run(tmp_path: Path) -> None:
    run(Scripts(tmp_path), SCRIPT)
    assert run(Scripts(tmp_path), SCRIPT.replace("VALUES (1)", "VALUES (2)") + "DROP DATASET B;") == 2


def test_a_repeated_statement_is_run_twice(tmp_path: Path) -> None:
    twice = "INSERT INTO A VALUES (1); INSERT INTO A VALUES (1);"
    run(Scripts(tmp_path), "INSERT INTO A VALUES (1);")
    assert run(Scripts(tmp_path), twice) == 1
    assert run(Scripts(tmp_path), twice) == 0


def test_an_invalid_script_or_record_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ParseError):
        Scripts(tmp_path).remaining("CREATE NONSENSE")
    (tmp_path / "statements.json").write_text("{")
    with pytest.raises(UserError, match="remove it"):
        Scripts(tmp_path)
