"""The page on conditions: its examples run, and its tables are true."""

from __future__ import annotations

import contextlib
import io
import re

from pages import DOCS, blocks

from tocsin.cluster.model import Column
from tocsin.content import Attributes, Condition
from tocsin.content.language.reader import LONGEST, MOST_PREDICATES
from tocsin.content.space.normal_form import MOST_TERMS, MOST_TRIED

PAGE = DOCS / "reference" / "conditions.md"
TEXT = PAGE.read_text()


def rows(heading: str) -> list[list[str]]:
    """The code of each cell of the first table below a heading."""
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [re.findall(r"`([^`]+)`", line) for line in re.findall(r"^\| `.*$", section, re.MULTILINE)]


def attributes() -> Attributes:
    names = {
        "kind": "string",
        "severity": "int",
        "place": "string",
        "lat": "double",
        "lon": "double",
        "tested": "boolean",
    }
    return Attributes.of_columns([Column(name, kind) for name, kind in names.items()])


def test_every_example_prints_what_the_page_shows() -> None:
    names: dict[str, object] = {}
    shown = blocks(PAGE)
    for block in shown:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, f"{PAGE.name}:{block.line}", "exec"), names)
        assert printed.getvalue().strip() == (block.expected or "").strip()
    assert len(shown) == 6


def test_every_condition_of_the_table_is_read() -> None:
    found = [cells[0] for cells in rows("SQL")]
    assert len(found) == 8
    for text in found:
        Condition.of_sql(text, attributes())


def test_every_predicate_of_padres_is_what_the_page_says_in_sql() -> None:
    for cells in rows("PADRES"):
        predicates = [cell for cell in cells if cell.startswith("[")]
        meant = [cell for cell in cells if not cell.startswith("[") and " " in cell]
        keys = {Condition.of_padres(text, attributes()).key for text in predicates}
        assert {Condition.of_sql(text, attributes()).key for text in meant} <= keys


def test_the_limits_are_those_of_the_code() -> None:
    listed = re.findall(r"^\| (?:characters|comparisons|conjunctions).*\| ([\d,]+) \|$", TEXT, re.MULTILINE)
    assert listed == [f"{each:,}" for each in (LONGEST, MOST_PREDICATES, MOST_TERMS, MOST_TRIED)]
