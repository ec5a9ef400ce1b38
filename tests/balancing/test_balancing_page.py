"""The code of the page about writing a strategy runs and prints the output shown."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from tocsin.balancing.strategies import registry

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "write-a-strategy.md"


def test_the_code_of_the_page_prints_the_output_shown(monkeypatch):

    monkeypatch.setattr(registry, "_registered", {})
    text = PAGE.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(block, names)
    assert printed.getvalue() == shown
