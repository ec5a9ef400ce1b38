"""The generated reference pages are current."""

from __future__ import annotations

import pytest
from pages import DOCS
from reference_pages import pages


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_reference_is_current(name: str) -> None:
    current = (DOCS / "reference" / name).read_text()
    assert current == pages()[name], "run: python tests/docs/reference_pages.py docs/reference"
