"""The page on content brokers that balance themselves: its code runs, and its checklist names what exists."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from pages import DOCS

ROOT = DOCS.parent
TEXT = (DOCS / "explanation" / "content-balancing.md").read_text(encoding="utf-8")
SOURCES = [ROOT / "src" / "tocsin", ROOT / "src" / "tocsin" / "balancing" / "strategies" / "cheung2006"]
TESTS = [ROOT / "tests", ROOT / "tests" / "balancing" / "strategies" / "cheung2006"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_code_prints_the_output_shown():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for block in blocks("python"):
            exec(block, {})
    assert out.getvalue() == "".join(blocks("text"))


def rows() -> list[list[str]]:
    checklist = TEXT.partition("## The checklist")[2]
    found = [line.strip("| \n").split(" | ") for line in checklist.splitlines() if line.startswith("| T")]
    assert len(found) > 15
    return found


def exists(name: str, folders: list[Path]) -> bool:
    return any((folder / name).exists() for folder in folders)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_item_has_code_and_a_test(row):
    codes, tests = (re.findall(r"`([\w/.]+)`", cell) for cell in row[1:])
    assert codes and tests
    assert [name for name in codes if not exists(name, SOURCES)] == []
    assert [name for name in tests if not exists(name, TESTS)] == []


def test_every_item_of_the_checklist_is_there():
    numbers = set()
    for row in rows():
        for part in row[0].split(", "):
            first, _, last = part.replace("T", "").partition("–")
            numbers |= set(range(int(first), int(last or first) + 1))
    assert numbers == set(range(15, 70))
