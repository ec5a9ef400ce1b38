"""The page of the paper's figures: its tables are what the program left behind, of the figures that there are."""

from __future__ import annotations

from reproduction_tables import KEPT, PAGE, current, outcomes

from tocsin.experiments.debs2019.figures import FIGURES

SEEDS = 5


def test_the_tables_are_those_of_the_program() -> None:
    text = PAGE.read_text()
    assert text.count("<!-- claims: ") == 1 and text.count("<!-- variants: ") == 2
    assert current(text) == text, "run: python tests/docs/reproduction_tables.py"


def test_all_figures_were_run_with_what_is_compared_in_them_now() -> None:
    kept = outcomes()
    assert list(kept) == list(FIGURES)
    for name, figure in FIGURES.items():
        assert kept[name].claim == figure.claim
        assert [row[0] for row in kept[name].rows] == [variant.name for variant in figure.variants]
        assert {len(check.holds) for check in kept[name].checks} == {SEEDS}


def test_every_chart_is_shown() -> None:
    text = PAGE.read_text()
    assert [path.name for path in KEPT.glob("*.png") if f"(reproduction/{path.name})" not in text] == []
