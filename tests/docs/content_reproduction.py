"""The tables of docs/explanation/reproduction-content-balancing.md, made from the outcomes of ``tocsin reproduce``.

``python tests/docs/content_reproduction.py [FOLDER]`` takes the outcomes and the page's charts of a folder first.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from pages import DOCS
from reproduction_tables import kept

from tocsin.experiments.cheung2006.catalogue import FIGURES
from tocsin.experiments.cheung2006.controls import DEPENDENT
from tocsin.experiments.markdown import claims, table
from tocsin.experiments.report import OUTCOMES

PAGE = DOCS / "explanation" / "reproduction-content-balancing.md"
KEPT = DOCS / "explanation" / "reproduction-content"
_PART = re.compile(r"(<!-- (claims|variants|sabotages) -->\n).*?(<!-- /\2 -->)", re.DOTALL)
_CHART = re.compile(r"\]\(reproduction-content/([\w.-]+\.png)\)")


def current(text: str) -> str:
    outcomes = list(kept(KEPT).values())

    def made(found: re.Match[str]) -> str:
        if found[2] == "claims":
            body = claims(outcomes)
        elif found[2] == "variants":
            body = "\n".join(f"**{each.id}**, {each.title}\n\n{table(each.columns, each.rows)}" for each in outcomes)
        else:
            rows = [[name, ", ".join(names)] for name, names in DEPENDENT.items()]
            body = table(["broken", "not reproduced any more"], rows)
        return f"{found[1]}\n{body}\n{found[3]}"

    return _PART.sub(made, text)


def take(folder: Path) -> None:
    """Figures that the folder does not have stay as they are."""
    KEPT.mkdir(exist_ok=True)
    name = KEPT / OUTCOMES
    before = json.loads(name.read_text(encoding="utf-8")) if name.exists() else []
    found = {each["id"]: each for each in [*before, *json.loads((folder / OUTCOMES).read_text(encoding="utf-8"))]}
    lines = [json.dumps(found[each], ensure_ascii=False, separators=(",", ":")) for each in FIGURES if each in found]
    name.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    for chart in _CHART.findall(PAGE.read_text(encoding="utf-8")):
        if (folder / chart).exists():
            shutil.copy(folder / chart, KEPT / chart)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        take(Path(argument))
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
