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
    "holds in at least half of them."
)


def write(
    outcomes: Sequence[Outcome], out: Path, *, charts: bool = True, title: str = TITLE, intro: str = INTRO
) -> list[Path]:
    """Returns the files that were written, the page with all figures last."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    images = {chart.name: render(chart) for outcome in outcomes for chart in outcome.charts} if charts else {}
    for name, image in images.items():
        (out / f"{name}.png").write_bytes(image)
        written.append(out / f"{name}.png")
    for outcome in outcomes:
        data = out / f"{outcome.id}.parquet"
        pq.write_table(pa.table(outcome.data), data, compression="zstd")
        written.append(data)
        alone = out / f"{outcome.id}.html"
        alone.write_text(page(f"{outcome.id}: {outcome.title}", intro, section(outcome, images)), encoding="utf-8")
        written.append(alone)
    tables = [claims(outcomes), *(variants([each]) for each in outcomes)]
    (out / "tables.md").write_text("\n".join(tables), encoding="utf-8")
    lines = b",\n".join(msgspec.json.encode(plain(each)) for each in outcomes)
    (out / OUTCOMES).write_bytes(b"[\n" + lines + b"\n]\n")
    written += [out / "tables.md", out / OUTCOMES]
    whole = out / "index.html"
    body = f"<section>{overview(outcomes)}</section>" + "".join(section(each, images) for each in outcomes)
    whole.write_text(page(title, intro, body), encoding="utf-8")
    return [*written, whole]
