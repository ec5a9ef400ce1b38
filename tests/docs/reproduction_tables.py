"""The tables of docs/explanation/reproduction.md, out of what ``tocsin reproduce`` left behind.

``python tests/docs/reproduction_tables.py [FOLDER]`` takes outcomes and the page's charts over from this folder of
``tocsin reproduce all``, and writes the tables anew.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from pages import DOCS

from tocsin.experiments.markdown import claims, restored, variants
from tocsin.experiments.outcome import Outcome
from tocsin.experiments.report import OUTCOMES

PAGE = DOCS / "explanation" / "reproduction.md"
KEPT = DOCS / "explanation" / "reproduction"
_TABLE = re.compile(r"(<!-- (claims|variants): ([\w ,-]+); .*? -->\n).*?(<!-- /\2 -->)", re.DOTALL)
_CHART = re.compile(r"\]\(reproduction/([\w-]+\.png)\)")


def outcomes() -> dict[str, Outcome]:
    found = [restored(each) for each in json.loads((KEPT / OUTCOMES).read_text())]
    return {each.id: each for each in found}


def current(text: str) -> str:
    there = outcomes()

    def made(found: re.Match[str]) -> str:
        chosen = list(there.values()) if found[3] == "all" else [there[name] for name in found[3].split(", ")]
        return f"{found[1]}\n{(claims if found[2] == 'claims' else variants)(chosen)}\n{found[4]}"

    return _TABLE.sub(made, text)


def take(folder: Path) -> None:
    for name in (OUTCOMES, *_CHART.findall(PAGE.read_text())):
        shutil.copy(folder / name, KEPT / name)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        take(Path(argument))
    PAGE.write_text(current(PAGE.read_text()))
