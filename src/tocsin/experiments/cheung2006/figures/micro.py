"""Figures 5.28 to 5.46: one thing of the local set-up changes (section 5.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tocsin.experiments.cheung2006 import criteria
from tocsin.experiments.cheung2006.runs import Runs, Variant
from tocsin.experiments.cheung2006.sweep import SECONDS, SMALL, Sweep, per_seed, shown
from tocsin.experiments.outcome import Check
from tocsin.simulation.edges import topology
from tocsin.simulation.edges.workload import Size

SIZE = Size(seconds=SECONDS, change_at=SECONDS)
DEVIATION, MATCHING, SESSIONS = "deviation of input", "deviation of matching delay, s", "sessions"


def below(sweep: Sweep, runs: Runs, measure: str, limit: float, says: str, *, direction: bool = True) -> Check:
    """A measure of every point stays below a limit."""
    found = sweep.values(runs, measure)
    holds = per_seed(list(found.values()), lambda column: max(column) <= limit)
    return Check(says, shown(found), holds, direction=direction)


# 5.28 to 5.30.


def zero_traffic(sweep: Sweep, runs: Runs) -> list[Check]:
    found = sweep.values(runs, "converged, s")
    rows = list(found.values())
    return [
        below(
            sweep, runs, DEVIATION, criteria.SWEEP_DEVIATION, "the input ratios end within the threshold at any share"
        ),
        below(
            sweep,
            runs,
            MATCHING,
            criteria.SWEEP_MATCHING_DEVIATION,
            "matching delays deviate by at most 0.004 s (0.001 to 0.002)",
            direction=False,
        ),
        Check(
            "it does not converge later with 80 % than with none",
            shown(found),
            per_seed([rows[0], rows[-1]], lambda column: column[1] <= column[0] + 300.0),
        ),
    ]


ZERO_TRAFFIC = Sweep(
    "T-5.28",
    "the share of subscribers without traffic (5.28 to 5.30)",
    "the share of zero-traffic subscribers does not change the final balance",
    "share without traffic",
    tuple(
        (
            share,
            Variant(
                f"{share:.0%} without traffic",
                topology.local,
                Size(zero=share, seconds=SECONDS, change_at=SECONDS),
                small=SMALL,
            ),
        )
        for share in (0.0, 0.2, 0.4, 0.6, 0.8)
    ),
    (("5.28", DEVIATION), ("5.29", MATCHING), ("5.30", "converged, s")),
    zero_traffic,
)


# 5.31 to 5.34.


def edges(sweep: Sweep, runs: Runs) -> list[Check]:
    delays = sweep.values(runs, "delivery delay, s")
    rows = list(delays.values())
    return [
        Check(
            "the delivery delay is lower with more edges",
            shown(delays),
            per_seed([rows[0], rows[-1]], lambda column: column[1] <= criteria.FASTER_DELIVERY * column[0]),
        ),
        below(sweep, runs, DEVIATION, criteria.SWEEP_DEVIATION, "and the input ratios end within the threshold"),
    ]


EDGES = Sweep(
    "T-5.31",
    "the number of edges (5.31 to 5.34)",
    "more edge brokers: lower delivery delay, the same balance",
    "edges",
    tuple(
        (count, Variant(f"{count} edges", partial(topology.identical_edges, count), SIZE, small=SMALL))
        for count in (2, 3, 4, 6)
    ),
    (("5.31", "delivery delay, s"), ("5.32", DEVIATION), ("5.33", MATCHING), ("5.34", "converged, s")),
    edges,
)


# 5.35 to 5.39.


def press(sweep: Sweep, runs: Runs) -> list[Check]:
    found = sweep.values(runs, "error of input estimates")
    one, best = found[1.0], [min(pair) for pair in zip(found[10.0], found[50.0], strict=True)]
    peaks = sweep.values(runs, "highest input ratio of B1")
    return [
        Check(
            "input estimates are best with 10 or 50 samples: no worse than with one",
            shown(found),
            tuple(
                None if other != other or first != first else other <= criteria.BETTER_ESTIMATE * first
                for first, other in zip(one, best, strict=True)
            ),
        ),
        Check(
            "with 400 samples B1's highest input ratio is above that with 50",
            shown(peaks),
            tuple(many > few for few, many in zip(peaks[50.0], peaks[400.0], strict=True)),
        ),
    ]


PRESS = Sweep(
    "T-5.35",
    "the samples of PRESS (5.35 to 5.39)",
    "PRESS samples: best between 10 and 50",
    "samples",
    tuple(
        (
            float(samples),
            Variant(
                f"{samples} samples",
                topology.local,
                SIZE,
                (("press_samples", samples), ("press_timeout", 60.0)),
                small=SMALL,
            ),
        )
        for samples in (1, 10, 50, 400)
    ),
    (
        ("5.35", "error of input estimates"),
        ("5.36", "error of output estimates"),
        ("5.37", "converged, s"),
        ("5.38", "highest input ratio of B1"),
    ),
    press,
)


# 5.40 to 5.43.


def thresholds(sweep: Sweep, runs: Runs) -> list[Check]:
    counts, deviations = sweep.values(runs, SESSIONS), sweep.values(runs, DEVIATION)
    settled = {value: row for value, row in counts.items() if value >= 0.08}
    overheads = sweep.values(runs, "overhead")
    return [
        Check(
            "fewer than 40 sessions with a threshold of 0.08 or more",
            shown(settled),
            per_seed(list(settled.values()), lambda column: max(column) < criteria.FEW_SESSIONS),
        ),
        Check(
            "with 0.04 it needs half as many again as with 0.1",
            shown({0.04: counts[0.04], 0.1: counts[0.1]}),
            per_seed([counts[0.1], counts[0.04]], lambda column: column[1] >= criteria.MORE_SESSIONS * column[0]),
        ),
        Check(
            "and more control messages",
            shown(overheads),
            per_seed([overheads[0.1], overheads[0.04]], lambda column: column[1] > column[0]),
            direction=False,
        ),
        Check(
            "with 0.7 the input ratios deviate by at most 0.25",
            shown({0.7: deviations[0.7]}),
            tuple(each <= criteria.LOOSE_DEVIATION for each in deviations[0.7]),
        ),
    ]


def _threshold(value: float) -> Variant:
    names = ("local_ratio_threshold", "local_delay_threshold", "global_ratio_threshold", "global_delay_threshold")
    settings = tuple((name, value if name.startswith("local") else max(value, 0.15)) for name in names)
    return Variant(f"threshold {value:g}", topology.local, SIZE, settings, small=SMALL)


THRESHOLDS = Sweep(
    "T-5.40",
    "the local detection threshold (5.40 to 5.43)",
    "detection threshold of 0.04 or less never settles, 0.08 or more needs fewer than 40 sessions; overhead 0.3% where "
    "it settles, 0.6% where it does not",
    "threshold",
    tuple((value, _threshold(value)) for value in (0.04, 0.08, 0.1, 0.3, 0.7)),
    (("5.40", DEVIATION), ("5.41", MATCHING), ("5.42", SESSIONS), ("5.43", "overhead")),
    thresholds,
)


# 5.44 to 5.46.


def periods(sweep: Sweep, runs: Runs) -> list[Check]:
    times, overheads = sweep.values(runs, "converged, s"), sweep.values(runs, "overhead")

    def later(column: Sequence[float]) -> bool:
        return column[1] >= column[0]

    return [
        Check(
            "a longer period converges no sooner",
            shown(times),
            per_seed([times[30.0], times[240.0]], later),
        ),
        Check(
            "a period of 20 s has at least twice the control messages of 120 s (0.6 and 0.1 %)",
            shown(overheads),
            per_seed(
                [overheads[120.0], overheads[20.0]], lambda column: column[1] >= criteria.PIE_OVERHEAD * column[0]
            ),
        ),
    ]


PERIODS = Sweep(
    "T-5.44",
    "the period of local PIE (5.44 to 5.46)",
    "PIE period: convergence + 200 s for each + 100 s; overhead 0.6% at 20 s, 0.1% at 120 s",
    "period, s",
    tuple(
        (period, Variant(f"period {period:g} s", topology.local, SIZE, (("local_pie_period", period),), small=SMALL))
        for period in (20.0, 30.0, 120.0, 240.0)
    ),
    (("5.44", "converged, s"), ("5.45", "highest input ratio of B1"), ("5.46", "overhead")),
    periods,
)
FIGURES = tuple(each.figure() for each in (ZERO_TRAFFIC, EDGES, PRESS, THRESHOLDS, PERIODS))
