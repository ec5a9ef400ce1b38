"""The README's example prints the output shown."""

from __future__ import annotations

from pages import ROOT
from shell import Shell


def test_the_example_prints_what_the_readme_says(shell: Shell) -> None:
    assert shell.run_page(ROOT / "README.md") == 2
