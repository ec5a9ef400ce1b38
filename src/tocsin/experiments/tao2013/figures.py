"""All figures, by their names."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.experiments.tao2013 import q3, q4, q5, qslack
from tocsin.experiments.tao2013.figure import Figure

FIGURES: dict[str, Figure] = {each.FIGURE.id: each.FIGURE for each in (q3, q4, q5, qslack)}
TITLE = "Tao et al. 2013: figures 3 to 5, again"
INTRO = (
    "Topics with deadlines on four edges, simulated with our own implementation on the paper's tables V and VI, and on "
    "random tables like them, one for each seed. A claim is reproduced if every sentence of it holds, and reproduced "
    "in direction only if all that matter do."
)


def steps(wanted: Sequence[Figure], seeds: int) -> int:
    """Runs, for the progress of a command: on the paper's table, and on that of each seed."""
    return len({name for figure in wanted for name in figure.variants}) * (1 + seeds)
