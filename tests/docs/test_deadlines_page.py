"""The page of the figures of Tao et al.: its tables match the kept outcomes of the current figures."""

from __future__ import annotations

from reproduction_tables import DEADLINES_KEPT, DEADLINES_PAGE, current, kept

from tocsin.experiments.tao2013.figures import FIGURES


def test_the_tables_match_the_kept_outcomes() -> None:
    text = DEADLINES_PAGE.read_text()
    assert current(text, DEADLINES_KEPT) == text, "run: python tests/docs/reproduction_tables.py"


def test_all_figures_were_run_with_their_current_variants() -> None:
    found = kept(DEADLINES_KEPT)
    assert list(found) == list(FIGURES)
    for name, figure in FIGURES.items():
        assert found[name].claim == figure.claim and tuple(found[name].remarks) == figure.remarks
        assert found[name].depends == figure.depends
        assert [row[0] for row in found[name].rows] == list(figure.variants)


def test_every_chart_is_shown() -> None:
    text = DEADLINES_PAGE.read_text()
    assert [path.name for path in DEADLINES_KEPT.glob("*.png") if f"/{path.name})" not in text] == []
