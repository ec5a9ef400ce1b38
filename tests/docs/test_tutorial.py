"""The tutorial, command by command, against a real server process."""

from __future__ import annotations

from pages import DOCS, blocks
from shell import Shell


def test_every_command_of_the_tutorial_does_what_the_page_says(shell: Shell) -> None:
    page = DOCS / "tutorial" / "first-application.md"
    assert shell.run_page(page) == len(blocks(page)) > 10
