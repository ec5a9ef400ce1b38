from __future__ import annotations

from differentiator_table import PAGE, replaced

from tocsin.overlay.balancing.differentiators import COLUMNS, table
from tocsin.overlay.balancing.strategies import STRATEGIES


def test_the_page_has_the_table_of_the_components_that_run():
    page = PAGE.read_text(encoding="utf-8")
    assert replaced(page) == page


def test_no_cell_of_the_table_is_empty():
    found = table()
    assert list(found) == list(STRATEGIES)
    assert [
        (name, column) for name, row in found.items() for column, cell in zip(COLUMNS, row, strict=True) if not cell
    ] == []


def test_the_cells_say_what_the_paper_says_of_each_strategy():
    """One word of each cell that no other strategy could have instead."""
    expected = {
        "rao-one-to-one": [
            "items",
            "threshold",
            "periodically",
            "migrate",
            "virtual server",
            "random id",
            "random",
            "asks",
        ],
        "gupta": [
            "subscriptions; events",
            "No estimation",
            "joins",
            "split",
            "replica",
            "heaviest",
            "k heaviest",
            "one hop",
        ],
        "bharambe": ["items", "α", "periodically", "rejoin", "Half", "light", "random walks", "TTL"],
        "byers": [
            "items",
            "No estimation",
            "inserted",
            "redirect",
            "item to be inserted",
            "least loaded",
            "Asks",
            "asks",
        ],
    }
    found = table()
    assert {
        name: [word in cell for word, cell in zip(words, found[name], strict=True)] for name, words in expected.items()
    } == {name: [True] * len(COLUMNS) for name in expected}
