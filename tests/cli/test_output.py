from __future__ import annotations

import datetime
import io
import json

import pytest

from tocsin.cli import output
from tocsin.cli.sql import Steps
from tocsin.errors import NotFound, ParseError


def test_a_table_in_a_pipe_is_plain_and_not_folded(capsys):
    output.print_table(["name", "n"], [["x" * 200, 7], [None, 1234]], [False, True])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "n"]
    assert lines[2] == "x" * 200 + "      7"
    assert lines[3].split() == ["null", "1234"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ("two\nlines", "two\\nlines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ({"a": [1]}, '{"a":[1]}'),
        (datetime.datetime(2026, 1, 2, 3, 4), "2026-01-02 03:04:00"),
    ],
)
def test_a_value_is_shown_on_one_line_without_control_characters(value, text):
    assert output.cell(value) == text


def test_square_brackets_are_not_interpreted_as_colours(capsys):
    output.print_table(["[red]a[/red]"], [["[bold]b[/bold]"]])
    assert "[red]a[/red]" in (out := capsys.readouterr().out)
    assert "[bold]b[/bold]" in out


def test_an_error_is_a_line_and_its_hint_another(capsys):
    output.report(NotFound("feed", "f", hint="CREATE FEED f"))
    assert capsys.readouterr().err == "error: there is no feed 'f'\nhint: CREATE FEED f\n"


@pytest.mark.parametrize(
    ("script", "line", "column", "shown"),
    [
        ("SELECT 1;\nSELEC 2", 2, 1, [" --> demo.sql:2:1", " 2 | SELEC 2", "   | ^"]),
        ("\tSELEC 2", 1, 2, [" --> demo.sql:1:2", " 1 |     SELEC 2", "   |     ^"]),
        ("'火' SELEC", 1, 5, [" --> demo.sql:1:5", " 1 | '火' SELEC", "   |      ^"]),
        ("SELECT", 1, 7, [" --> demo.sql:1:7", " 1 | SELECT", "   |       ^"]),
        ("SELECT", 9, 1, []),
    ],
)
def test_a_statements_error_shows_its_place(capsys, script, line, column, shown):
    output.report(ParseError("unexpected", line=line, column=column), script=script, name="demo.sql")
    assert capsys.readouterr().err.splitlines()[1:] == shown


def test_an_error_for_programs_is_json(capsys):
    output.report(ParseError("unexpected", line=1, column=2), json=True)
    expected = {"error": {"code": "syntax", "message": "unexpected", "line": 1, "column": 2}}
    assert json.loads(capsys.readouterr().err) == expected


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_progress_bar_is_shown_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with output.progress() as bar:
        steps = Steps(bar)
        steps.show({"statement": 1, "done": 0.5, "rows": 1_000, "text": "loading Reports"})
        bar.refresh()
        steps.end(1)
    assert "loading Reports: 1,000 rows" in terminal.getvalue()


@pytest.mark.parametrize(("variable", "coloured"), [("NO_COLOR", False), ("OTHER", True)])
def test_errors_are_coloured_on_a_terminal_unless_disabled(monkeypatch, variable, coloured):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(variable, "1")
    output.report(NotFound("feed", "f"))
    assert ("\x1b[1;31m" in terminal.getvalue()) is coloured


def test_there_is_no_progress_bar_in_a_pipe():
    with output.progress() as bar:
        assert bar is None
