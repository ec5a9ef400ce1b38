"""Charts and tables as one HTML file that loads nothing else, light or dark as the reader's system is set."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources

from tocsin.experiments.chart import Chart
from tocsin.experiments.outcome import Outcome, Verdict

CLASSES = {
    Verdict.REPRODUCED: "reproduced",
    Verdict.DIRECTION: "direction",
    Verdict.NO_EFFECT: "no-effect",
    Verdict.NOT: "not",
}


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def cells(kind: str, row: Sequence[str]) -> str:
        return "".join(f"<{kind}{' class=n' if i else ''}>{escape(cell)}</{kind}>" for i, cell in enumerate(row))

    head, body = cells("th", columns), "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def embedded(chart: Chart, image: bytes) -> str:
    """An ``img`` element that contains the PNG, so that the page is a single file."""
    alt = f"{chart.title}: {', '.join(panel.title for panel in chart.panels)}"
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{b64encode(image).decode("ascii")}">'


def section(outcome: Outcome, images: Mapping[str, bytes]) -> str:
    """``images`` are PNGs by the name of their chart."""
    said = "".join(
        f"<tr><td>{'set-up: ' if check.setup else ''}{escape(check.says)}</td><td>{escape(check.found)}</td>"
        f"<td>{escape(check.often)}</td></tr>"
        for check in outcome.checks
    )
    remarks = "".join(f'<p class="soft">{escape(remark)}</p>' for remark in outcome.remarks)
    return (
        f'<section id="{escape(outcome.id)}"><h2>{escape(outcome.id)}: {escape(outcome.title)} '
        f"{verdict(outcome)}</h2><p>The paper: {escape(outcome.claim)}</p>"
        + (f"<p>The verdict: {escape(outcome.depends)}.</p>" if outcome.depends else "")
        + "<table><thead><tr><th>it says</th><th>came out</th><th>holds in</th></tr></thead>"
        + f"<tbody>{said}</tbody></table>"
        + "".join(embedded(chart, images[chart.name]) for chart in outcome.charts if chart.name in images)
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


def page(title: str, intro: str, body: str) -> str:
    """A whole file. ``intro`` is text, ``body`` is HTML."""
    style = resources.files("tocsin.experiments").joinpath("page.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{style}</style><header><h1>{escape(title)}</h1><p>{escape(intro)}</p></header>{body}</html>\n"
    )
