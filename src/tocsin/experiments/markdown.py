"""Outcomes as tables in Markdown, for documentation; and as JSON, from which the same tables can be made again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from tocsin.experiments.outcome import Check, Outcome

#: The mark of a sentence of a claim, by how often it holds; of one that no verdict depends on.
MARKS, SETUP = ("✓", "½", "✗"), "set-up:"


def plain(outcome: Outcome) -> dict[str, Any]:
    return {
        "id": outcome.id,
        "title": outcome.title,
        "claim": outcome.claim,
        "verdict": outcome.verdict.value,
        "checks": [asdict(each) for each in outcome.checks],
        "variants": [dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows],
        "remarks": outcome.remarks,
        "depends": outcome.depends,
    }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)


def mark(check: Check) -> str:
    if check.setup:
        return SETUP
    return MARKS[0 if check.mostly else 1 if check.half else 2] if check.shown else "–"


def claims(outcomes: Sequence[Outcome]) -> str:
    """A row per figure: the claim, our result sentence by sentence, the verdict."""
    rows = [
        [
            each.id,
            each.claim,
            "<br>".join(f"{mark(check)} {check.says}: {check.found} ({check.often})" for check in each.checks),
            f"**{each.verdict.value}**{f'; {each.depends}' if each.depends else ''}",
        ]
        for each in outcomes
    ]
    return table(["figure", "the paper says", "came out", "verdict"], rows)


def variants(outcomes: Sequence[Outcome]) -> str:
    """All variants that these figures compare, each once."""
    rows = {row[0]: row for each in outcomes for row in each.rows}
    return table(outcomes[0].columns, rows.values())
