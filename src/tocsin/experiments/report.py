"""The files of a reproduction: data, charts, a page for each figure and one with all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.experiments.markdown import claims, plain, variants
from tocsin.experiments.outcome import Outcome
from tocsin.experiments.page import overview, page, section
from tocsin.experiments.png import render

OUTCOMES = "outcomes.json"

TITLE = "DEBS 2019, figures 5 to 14, again"
INTRO = (
    "Every figure again, from our own simulation of the network. Each value is a mean over several seeds of the random "
    "generators, with its standard deviation; shaded areas go from the smallest to the largest. A claim is reproduced "
    "if every sentence of it holds in at least four of five seeds, and reproduced in direction only if what matters "
    "holds in at least half of them. Where most seeds leave nothing to repair, there is no effect to show."
)


def write(
    outcomes: Sequence[Outcome], out: Path, *, charts: bool = True, title: str = TITLE, intro: str = INTRO
) -> list[Path]:
    """Returns the files that were written, the page with all figures last."""
    out.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def add(name: str, content: bytes | str) -> None:
        written.append(out / name)
        written[-1].write_bytes(content.encode() if isinstance(content, str) else content)

    images = {chart.name: render(chart) for outcome in outcomes for chart in outcome.charts} if charts else {}
    for name, image in images.items():
        add(f"{name}.png", image)
    for outcome in outcomes:
        written.append(out / f"{outcome.id}.parquet")
        pq.write_table(pa.table(outcome.data), written[-1], compression="zstd")
        add(f"{outcome.id}.html", page(f"{outcome.id}: {outcome.title}", intro, section(outcome, images)))
    add("tables.md", "\n".join([claims(outcomes), *(variants([each]) for each in outcomes)]))
    lines = b",\n".join(msgspec.json.encode(plain(each)) for each in outcomes)
    add(OUTCOMES, b"[\n" + lines + b"\n]\n")
    body = f"<section>{overview(outcomes)}</section>" + "".join(section(each, images) for each in outcomes)
    add("index.html", page(title, intro, body))
    return written
