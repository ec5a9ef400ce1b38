"""The tables of the pages on reproduction, made from the outcomes of ``tocsin reproduce``.

``python tests/docs/reproduction_tables.py [FOLDER...]`` copies the outcomes and the pages' charts from these folders,
of ``tocsin reproduce`` with D-5 to D-14, with D-proto and ``--live``, or with Q-3 to Q-5 and Q-slack, and updates the
tables.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from pages import DOCS

from tocsin.experiments.markdown import claims, table, variants
from tocsin.experiments.outcome import Check, Outcome, Verdict
from tocsin.experiments.report import OUTCOMES

PAGE = DOCS / "explanation" / "reproduction.md"
KEPT = DOCS / "explanation" / "reproduction"
#: Of Tao et al.: figures whose names begin with Q.
DEADLINES_PAGE, DEADLINES_KEPT = PAGE.with_name("reproduction-deadlines.md"), KEPT.with_name("reproduction-deadlines")
#: Run live, so that it is apart from what is simulated; and the figures of the same set-up.
LIVE, SIMULATED = "D-proto", ("D-6", "D-7", "D-9")
_TABLE = re.compile(r"(<!-- (claims|variants|beside|remarks): ([\w ,-]+); .*? -->\n).*?(<!-- /\2 -->)", re.DOTALL)
_CHART = re.compile(r"\]\(reproduction(?:-deadlines)?/([\w-]+\.png)\)")


def restored(found: dict[str, Any]) -> Outcome:
    """Without charts and data."""
    checks = [Check(**{**each, "holds": tuple(each["holds"])}) for each in found["checks"]]
    columns = list(found["variants"][0])
    rows = [[row[name] for name in columns] for row in found["variants"]]
    outcome = Outcome(
        found["id"],
        found["title"],
        found["claim"],
        checks,
        columns,
        rows,
        [],
        found["remarks"],
        depends=found.get("depends", ""),
    )
    assert outcome.verdict is Verdict(found["verdict"])
    return outcome


def kept(folder: Path) -> dict[str, Outcome]:
    return {each["id"]: restored(each) for each in json.loads((folder / OUTCOMES).read_text())}


def current(text: str, folder: Path = KEPT) -> str:
    there = kept(folder)

    def made(found: re.Match[str]) -> str:
        simulated = [each for each in there.values() if each.id != LIVE]
        chosen = simulated if found[3] == "all" else [there[name] for name in found[3].split(", ")]
        return f"{found[1]}\n{MADE[found[2]](chosen)}\n{found[4]}"

    return _TABLE.sub(made, text)


def beside(chosen: list[Outcome]) -> str:
    """Each strategy live, beside its result in the simulation."""
    (live,) = chosen
    there = kept(KEPT)
    simulated = [(there[name].columns, row) for name in SIMULATED for row in there[name].rows]
    theirs = {row[0]: dict(zip(columns, row, strict=True)) for columns, row in simulated}
    compared = ("maximum load", "mean load", "cov", "migrations", "of a shuffle")
    rows = []
    for row in live.rows:
        here, beside_it = dict(zip(live.columns, row, strict=True)), theirs[row[0]]
        rows.append([row[0], *(cell for name in compared for cell in (here[name], beside_it[name]))])
    return table(["", *(f"{name}{how}" for name in compared for how in (", live", ", simulated"))], rows)


def remarks(chosen: list[Outcome]) -> str:
    return "".join(f"{remark}\n" for each in chosen for remark in each.remarks)


MADE = {"claims": claims, "variants": variants, "beside": beside, "remarks": remarks}


def take(folder: Path) -> None:
    """Figures that the folder does not have stay as they are; those of a paper without a page are left out."""
    new = {each["id"]: each for each in json.loads((folder / OUTCOMES).read_text())}
    for page, there, letter in ((PAGE, KEPT, "D"), (DEADLINES_PAGE, DEADLINES_KEPT, "Q")):
        mine = {id: each for id, each in new.items() if id.startswith(letter)}
        if mine:
            put(folder, mine, page, there)


def put(folder: Path, new: dict[str, Any], page: Path, there: Path) -> None:
    name = there / OUTCOMES
    there.mkdir(exist_ok=True)
    both = {each["id"]: each for each in json.loads(name.read_text())} | new if name.exists() else new
    lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in both.values()]
    name.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    for chart in _CHART.findall(page.read_text()):
        if (folder / chart).exists():
            shutil.copy(folder / chart, there / chart)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        take(Path(argument))
    PAGE.write_text(current(PAGE.read_text()))
    DEADLINES_PAGE.write_text(current(DEADLINES_PAGE.read_text(), DEADLINES_KEPT))
