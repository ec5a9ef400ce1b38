"""Charts as PNG. matplotlib is an optional dependency."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from tocsin.errors import UserError
from tocsin.experiments.chart import PALETTE, Chart, Panel

WIDTH, HEIGHT, DPI = 4.4, 3.0, 110


def pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise UserError(
            "drawing charts needs matplotlib", hint="pip install 'tocsin[experiments]', or ask for no charts"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as found

    return found


def render(chart: Chart) -> bytes:
    plt = pyplot()
    columns = min(chart.columns, len(chart.panels))
    rows = -(-len(chart.panels) // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(WIDTH * columns, HEIGHT * rows + 0.7),
        squeeze=False,
        sharey=chart.shared,
        layout="constrained",
    )
    for axis, panel in zip(axes.flat, chart.panels, strict=False):
        _panel(axis, panel)
    for axis in axes.flat[len(chart.panels) :]:
        axis.set_visible(False)
    figure.suptitle(chart.title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(len(handles), max(3, 2 * columns)),
        frameon=False,
        fontsize=8.5,
    )
    image = BytesIO()
    figure.savefig(image, format="png", dpi=DPI, metadata={"Software": None})
    plt.close(figure)
    return image.getvalue()


def _panel(axis: Any, panel: Panel) -> None:
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color("#aab2bd")
    axis.grid(axis="y", color="#e6e9ee", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(colors="#4a5260", labelsize=8.5, length=0)
    axis.set_title(panel.title, fontsize=10, loc="left")
    axis.set_xlabel(panel.x_label, fontsize=8.5, color="#4a5260")
    axis.set_ylabel(panel.y_label, fontsize=8.5, color="#4a5260")
    (_bars if panel.kind == "bars" else _lines)(axis, panel)
    if panel.level is not None:
        axis.axhline(panel.level, color="#8a93a0", linewidth=1, linestyle=":")
        axis.annotate(
            panel.level_name,
            (0.99, panel.level),
            xycoords=("axes fraction", "data"),
            fontsize=7.5,
            color="#6b7480",
            ha="right",
            va="bottom",
        )
    axis.set_ylim(bottom=0)


def _lines(axis: Any, panel: Panel) -> None:
    for series in panel.series:
        colour = PALETTE[series.tone % len(PALETTE)]
        style = "--" if series.dashed else "-"
        axis.plot(series.x, series.y, style, color=colour, linewidth=1.5, label=series.name)
        if series.low is not None and series.high is not None:
            axis.fill_between(series.x, series.low, series.high, color=colour, alpha=0.13, linewidth=0)
    axis.margins(x=0.01)


def _bars(axis: Any, panel: Panel) -> None:
    count = len(panel.series)
    width = 0.82 / count
    for i, series in enumerate(panel.series):
        at = np.arange(len(panel.labels)) + (i - (count - 1) / 2) * width
        errors = None
        if series.low is not None and series.high is not None:
            errors = np.stack([series.y - series.low, series.high - series.y])
        colour = PALETTE[series.tone % len(PALETTE)]
        axis.bar(
            at,
            series.y,
            width * 0.94,
            color=colour,
            label=series.name,
            yerr=errors,
            error_kw={"elinewidth": 0.8, "ecolor": "#4a5260"},
        )
    axis.set_xticks(np.arange(len(panel.labels)), panel.labels)
