"""The README's example, as it is printed."""

from __future__ import annotations

import re

from pages import ROOT
from shell import Shell


def test_the_example_prints_what_the_readme_says(shell: Shell) -> None:
    assert shell.run_page(ROOT / "README.md") == 2


def test_every_figure_is_in_the_table_that_it_links_to() -> None:
    section = (ROOT / "README.md").read_text().partition("## In figures")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| .*? \| (.*?) \| (.*?) \| \[\w+\]\((.*?)\) \|$", section, re.MULTILINE)
    assert len(rows) > 5
    for ours, others, file in rows:
        known = (ROOT / file).read_text()
        for figure in re.findall(r"\d[\d,.]*\d|\d", ours + " " + others):
            cell = rf"(?<![\d.,]){re.escape(figure)}(?![\d.,]\d|\d)"
            assert re.search(cell, known), f"{figure} is not in {file}: take the README's figures from the new table"
