"""The page of the thesis' figures: its tables match the kept outcomes of the current figures."""

from __future__ import annotations

from content_reproduction import KEPT, PAGE, current
from reproduction_tables import kept

from tocsin.experiments.cheung2006.catalogue import FIGURES, SEEDS


def test_the_tables_match_the_kept_outcomes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert current(text) == text, "run: python tests/docs/content_reproduction.py"


def test_the_kept_outcomes_are_of_current_figures() -> None:
    found = kept(KEPT)
    assert found and set(found) <= set(FIGURES)
    for name, outcome in found.items():
        figure = FIGURES[name]
        assert outcome.claim == figure.claim and tuple(outcome.remarks) == figure.remarks
        assert {len(check.holds) for check in outcome.checks} == {SEEDS if figure.variants else 1}


def test_every_chart_is_shown() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [path.name for path in KEPT.glob("*.png") if f"(reproduction-content/{path.name})" not in text] == []
