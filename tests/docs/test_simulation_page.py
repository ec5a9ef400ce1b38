"""The page on fault campaigns: its commands run."""

from __future__ import annotations

from pathlib import Path

from pages import DOCS
from shell import SHOWN, SHOWN_BROKER, Shell


def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    assert Shell(SHOWN, SHOWN_BROKER, tmp_path).run_page(DOCS / "how-to" / "simulate-faults.md") == 6
