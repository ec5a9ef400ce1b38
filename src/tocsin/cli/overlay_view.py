"""The overlay of a network as a drawing: cluster heads, their edges, and the messages on each link."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.text import Text
from rich.tree import Tree

#: Where a drawing begins.
_ORDER = {"head": 0, "both": 1, "edge": 2}


def drawing(brokers: Iterable[dict[str, Any]]) -> list[Tree]:
    """One tree for each overlay; brokers without links are left out. Rows are those of ``GET /topology``."""
    rows = {str(each["name"]): each for each in brokers if each.get("links")}
    trees, drawn = [], set[str]()
    for name in sorted(rows, key=lambda each: (_ORDER.get(rows[each]["role"], 3), each)):
        if name not in drawn:
            drawn.add(name)
            tree = Tree(_label(name, rows[name]))
            _grow(tree, name, rows, drawn)
            trees.append(tree)
    return trees


def _grow(tree: Tree, name: str, rows: dict[str, dict[str, Any]], drawn: set[str]) -> None:
    for other, (came, went) in sorted(rows[name]["links"].items()):
        if other in drawn:
            continue
        drawn.add(other)
        row = rows.get(other, {"role": "not reported", "links": {}})
        branch = tree.add(_label(other, row).append(f"   ←{came:,} →{went:,}", "dim"))
        _grow(branch, other, rows | {other: row}, drawn)


def _label(name: str, row: dict[str, Any]) -> Text:
    return Text(name).append(f" {row['role']}", "bold" if row["role"] == "head" else "")
