"""Every hop that the architecture page names exists in the code."""

from __future__ import annotations

import ast
import re

import pytest
from pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
HOPS = re.findall(r"^\| .+? \| `([\w/]+\.py)` \| `([\w.]+)` \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("file", "name"), sorted(set(HOPS)))
def test_every_hop_names_a_definition_in_its_file(file: str, name: str) -> None:
    body = ast.parse((ROOT / "src" / "tocsin" / file).read_text()).body
    for part in name.split("."):
        named = [node for node in body if getattr(node, "name", None) == part]
        assert named, f"{file} has no {name}"
        body = getattr(named[0], "body", [])


def test_the_page_names_the_hops_of_both_paths() -> None:
    assert len(HOPS) > 30
