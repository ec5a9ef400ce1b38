"""Figure 4: the queue depth of topic 8 in b1."""

from __future__ import annotations

import numpy as np

from tocsin.experiments.chart import Chart, Panel, Series
from tocsin.experiments.outcome import Check
from tocsin.experiments.tao2013.figure import BURST, Figure, once
from tocsin.experiments.tao2013.q3 import EMPTY, OVER, emptied
from tocsin.experiments.tao2013.runs import NONE, TAO, Runs

#: By hand: 0.56 Mbit/s in excess for 4 s, in messages of 3200 bits. The time that topic 8 may wait: 1.1 − 0.2 − 0.1 s.
DEPTH, ALLOWED = 700, 0.8


def checks(runs: Runs) -> list[Check]:
    found = runs.paper(TAO)
    depth = [found.waiting("b1", "8", second) for second in found.times]
    top = int(np.argmax(depth))
    growing = all(a < b for a, b in zip(depth[BURST:OVER], depth[BURST + 1 : OVER + 1], strict=True))
    end = emptied(found)
    falling = end is not None and all(a > b for a, b in zip(depth[top:end], depth[top + 1 : end + 1], strict=True))
    others = [f"topic {topic}" for (edge, topic), values in found.depth.items() if max(values) > 0 and topic != "8"]
    longest = found.longest["8"]
    return [
        once("it grows from 30 s on", f"{depth[BURST]:.0f} to {depth[OVER]:,.0f} messages", growing),
        once(
            "it is deepest at 34 s, with 700 messages",
            f"{depth[top]:,.0f} at {top} s",
            top == OVER and round(depth[top]) == DEPTH,
        ),
        once("from then on it falls, and is empty at 62 s", f"{end} s", falling and end == EMPTY),
        once("no other queue grows", ", ".join(others) or "none", not others, direction=False),
        once("no message waits longer than it may", f"{longest:.2f} of {ALLOWED} s", longest <= ALLOWED),
    ]


def charts(runs: Runs) -> list[Chart]:
    series = []
    for tone, name in enumerate((TAO, NONE), start=1):
        found = runs.paper(name)
        x = np.array(found.times, dtype=np.float64)
        depth = np.array([found.waiting("b1", "8", second) for second in found.times])
        series.append(Series(name, x, depth, tone=tone, dashed=name == NONE))
    panel = Panel("", "time, s", "messages of topic 8 that wait in b1", series)
    return [Chart("Q-4", "queue depth of topic 8 in b1", [panel], columns=1)]


FIGURE = Figure(
    "Q-4",
    "queue depth",
    "the queue of topic 8 in b1 grows from the burst at 30 s to 34 s, and is empty at 62 s",
    (TAO, NONE),
    checks,
    charts,
)
