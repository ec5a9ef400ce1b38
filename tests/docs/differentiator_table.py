"""Writes the paper's table 2 into the page about key spaces, from the components that run: ``python`` this file."""

from __future__ import annotations

from pathlib import Path

from tocsin.overlay.balancing.differentiators import COLUMNS, table

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "key-spaces.md"
BEGIN = "<!-- table 2; `python tests/docs/differentiator_table.py` writes it -->"
END = "<!-- /table 2 -->"


def written() -> str:
    found = table()
    head = f"| | {' | '.join(found)} |\n|---|{'---|' * len(found)}\n"
    rows = (
        f"| **{column}** | {' | '.join(row)} |\n"
        for column, row in zip(COLUMNS, zip(*found.values(), strict=True), strict=True)
    )
    return head + "".join(rows)


def replaced(page: str) -> str:
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{written()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
