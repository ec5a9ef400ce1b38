"""Charts and tables as one HTML file that fetches nothing: hover for values, press a name to hide it, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

import msgspec
import numpy as np

from tocsin.experiments.chart import PALETTE, Chart
from tocsin.experiments.outcome import Outcome, Verdict

CLASSES = {Verdict.REPRODUCED: "reproduced", Verdict.DIRECTION: "direction", Verdict.NOT: "not"}


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def cells(kind: str, row: Sequence[str]) -> str:
        return "".join(f"<{kind}{' class=n' if i else ''}>{escape(cell)}</{kind}>" for i, cell in enumerate(row))

    head, body = cells("th", columns), "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def drawn(chart: Chart) -> str:
    return f'<div id="{escape(chart.name)}"><div class="panels"></div><div class="legend"></div></div>'


def section(outcome: Outcome) -> str:
    said = "".join(
        f"<tr><td>{escape(check.says)}</td><td>{escape(check.found)}</td><td>{escape(check.often)}</td></tr>"
        for check in outcome.checks
    )
    remarks = "".join(f'<p class="soft">{escape(remark)}</p>' for remark in outcome.remarks)
    return (
        f'<section id="{escape(outcome.id)}"><h2>{escape(outcome.id)}: {escape(outcome.title)} '
        f"{verdict(outcome)}</h2><p>The paper: {escape(outcome.claim)}</p>"
        f"<table><thead><tr><th>it says</th><th>came out</th><th>holds in</th></tr></thead>"
        f"<tbody>{said}</tbody></table>"
        + "".join(drawn(chart) for chart in outcome.charts)
        + table(outcome.columns, outcome.rows)
        + remarks
        + "</section>"
    )


def verdict(outcome: Outcome) -> str:
    return f'<span class="verdict {CLASSES[outcome.verdict]}">{outcome.verdict.value}</span>'


def overview(outcomes: Sequence[Outcome]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{escape(each.id)}">{escape(each.id)}</a></td><td>{escape(each.claim)}</td>'
        f"<td>{verdict(each)}</td></tr>"
        for each in outcomes
    )
    return f"<table><thead><tr><th>figure</th><th>claim</th><th>verdict</th></tr></thead><tbody>{rows}</tbody></table>"


def page(title: str, intro: str, body: str, charts: Sequence[Chart]) -> str:
    """A whole file. ``intro`` is text, ``body`` is HTML."""
    files = resources.files("tocsin.experiments")
    style, script = (files.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    # The end of a script element inside a string would end this one.
    data = [
        msgspec.json.encode(what).decode().replace("</", "<\\/") for what in (PALETTE, [plain(each) for each in charts])
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{style}</style><header><div><h1>{escape(title)}</h1><p>{escape(intro)}</p></div>"
        f'<button id="theme" type="button">light / dark</button></header>{body}<div id="tip"></div>'
        f"<script>const PALETTE = {data[0]}, CHARTS = {data[1]};\n{script}</script></html>\n"
    )


def plain(chart: Chart) -> dict[str, Any]:
    """As JSON; six digits are more than a screen shows."""

    def values(found: Any) -> list[float] | None:
        return None if found is None else [float(f"{value:.6g}") for value in np.asarray(found).tolist()]

    return {
        "name": chart.name,
        "shared": chart.shared,
        "panels": [
            {
                "title": panel.title,
                "x_label": panel.x_label,
                "y_label": panel.y_label,
                "kind": panel.kind,
                "labels": panel.labels,
                "level": panel.level,
                "level_name": panel.level_name,
                "series": [
                    {
                        "name": each.name,
                        "x": values(each.x),
                        "y": values(each.y),
                        "low": values(each.low),
                        "high": values(each.high),
                        "tone": each.tone,
                        "dashed": each.dashed,
                    }
                    for each in panel.series
                ],
            }
            for panel in chart.panels
        ],
    }
