"""The page of the paper's figures: its tables match the kept outcomes of the current figures."""

from __future__ import annotations

from reproduction_tables import KEPT, LIVE, PAGE, current, kept

from tocsin.experiments.debs2019 import live
from tocsin.experiments.debs2019.figures import FIGURES

SEEDS = 5


def test_the_tables_match_the_kept_outcomes() -> None:
    text = PAGE.read_text()
    assert current(text) == text, "run: python tests/docs/reproduction_tables.py"


def test_all_figures_were_run_with_their_current_variants() -> None:
    found = kept(KEPT)
    assert list(found) == [*FIGURES, LIVE]
    for name, figure in FIGURES.items():
        assert found[name].claim == figure.claim and tuple(found[name].remarks) == figure.remarks
        assert found[name].depends == figure.depends
        assert [row[0] for row in found[name].rows] == [variant.name for variant in figure.variants]
        assert {len(check.holds) for check in found[name].checks} == {SEEDS}


def test_the_live_runs_are_of_current_variants() -> None:
    found = kept(KEPT)[LIVE]
    assert len({len(check.holds) for check in found.checks}) == 1
    assert {row[0] for row in found.rows} <= {variant.name for variant in live.VARIANTS}


def test_every_chart_is_shown() -> None:
    text = PAGE.read_text()
    assert [path.name for path in KEPT.glob("*.png") if f"(reproduction/{path.name})" not in text] == []
