"""All figures and tables, by their names."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.experiments.antoine2014 import p2, pt1, pt2
from tocsin.experiments.antoine2014.figure import Figure
from tocsin.experiments.antoine2014.runs import Job

FIGURES: dict[str, Figure] = {each.FIGURE.id: each.FIGURE for each in (p2, pt1, pt2)}
TITLE = "Antoine et al. 2014: figure 2 and tables 1 and 2, again"
INTRO = (
    "Strategies on key spaces, with our own implementation and generated data. Each value is a mean over several "
    "seeds, with its standard deviation. A claim is reproduced if every sentence of it holds in at least four of five "
    "seeds, and reproduced in direction only if what matters holds in at least half of them. What counts was fixed "
    "before any result was known."
)


def jobs(wanted: Sequence[Figure]) -> list[Job]:
    """What these figures are made from, for each seed, each once."""
    return list(dict.fromkeys(job for figure in wanted for job in figure.jobs))
