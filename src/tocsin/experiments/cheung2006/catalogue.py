"""All tables and figures of the thesis that are reproduced, by their names."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.experiments.cheung2006.figure import Figure
from tocsin.experiments.cheung2006.figures import clusters, local, micro, t4_1, t4_2
from tocsin.experiments.cheung2006.runs import Variant

FIGURES: dict[str, Figure] = {
    each.id: each for each in (t4_1.FIGURE, t4_2.FIGURE, *local.FIGURES, clusters.FIGURE, *micro.FIGURES)
}
#: Seeds of each, as the thesis has for its micro experiments.
SEEDS = 3
TITLE = "Cheung 2006: tables and figures of chapters 4 and 5, again"
INTRO = (
    "Load balancing of content-based brokers, simulated with the machines that would run in production. Each value is "
    "a mean over several seeds, with its standard deviation; shaded areas go from the smallest to the largest. A claim "
    "is reproduced if every sentence of it holds in at least four of five seeds, and reproduced in direction only if "
    "what matters holds in at least half of them. Most of what counts was fixed before "
    "any result was known; the page of the reproduction says what was not."
)


def variants(wanted: Sequence[Figure]) -> list[Variant]:
    """The runs that these figures need, each once."""
    return list({each.name: each for figure in wanted for each in figure.variants}.values())
