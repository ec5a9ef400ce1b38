from __future__ import annotations

import pytest
from benchmarks import harness
from benchmarks.harness import Table


def test_a_table_is_markdown_with_right_aligned_numbers():
    table = Table("Speed", ["what", "n", "ms"], notes=["two cores"])
    table.add("one", 1_000, 1.23456)
    table.add("other", 20, None)
    assert table.markdown().splitlines() == [
        "## Speed",
        "",
        "| what  |     n |   ms |",
        "|-------|------:|-----:|",
        "| one   | 1,000 | 1.23 |",
        "| other |    20 |    – |",
        "",
        "- two cores",
    ]


def test_a_row_with_too_few_cells_is_refused():
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        Table("x", ["a", "b"]).add(1)


@pytest.mark.parametrize(
    ("cell", "text"),
    [(0.0, "0"), (0.000123456, "0.000123"), (12_345.6, "12,300"), (1.5, "1.50"), (-2.0, "-2.00"), (7, "7"), ("x", "x")],
)
def test_numbers_have_three_significant_digits(cell, text):
    assert harness.text(cell) == text


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (0, 1)])
def test_a_percentile_is_one_of_the_values(percent, value):
    assert harness.percentile(range(1, 101), percent) == value


def test_saved_tables_describe_their_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "TABLES", tmp_path)
    text = harness.save("speed", Table("Speed", ["n"], [[1]])).read_text()
    for word in ("processor", "memory", "kernel", "Python", "Spark", "Java"):
        assert f"- {word}: " in text
    assert "## Speed" in text
