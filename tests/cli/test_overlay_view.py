"""The drawing of an overlay in ``tocsin top``."""

from __future__ import annotations

from rich.console import Console

from tocsin.cli.overlay_view import drawing


def drawn(*brokers: dict[str, object]) -> str:
    console = Console(width=80, color_system=None, force_terminal=False)
    with console.capture() as capture:
        for tree in drawing(brokers):
            console.print(tree)
    return capture.get()


def test_a_head_is_drawn_with_its_edges_and_their_traffic():
    found = drawn(
        {"name": "a", "role": "edge", "links": {"b": (3, 4)}},
        {"name": "b", "role": "head", "links": {"a": (4, 3), "c": (1_000, 2)}},
        {"name": "alone", "role": "both", "links": {}},
    )
    assert found.splitlines() == ["b head", "├── a edge   ←4 →3", "└── c not reported   ←1,000 →2"]


def test_a_network_without_links_has_no_drawing():
    assert drawn({"name": "a", "role": "both", "links": {}}, {"name": "old"}) == ""


def test_reports_that_do_not_agree_are_drawn_once():
    found = drawn(
        {"name": "a", "role": "head", "links": {"b": (1, 1), "c": (1, 1)}},
        {"name": "b", "role": "head", "links": {"a": (1, 1), "c": (1, 1)}},
        {"name": "c", "role": "edge", "links": {"a": (1, 1)}},
    )
    assert [line.split()[-4:][0] for line in found.splitlines()].count("c") <= 1 and found.count("c edge") == 1
