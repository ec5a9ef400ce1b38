"""The prototype live: real processes with Spark, a client for each of the people, the city's clock sped up.

The same charts as of the simulation, drawn from the coordinator's own history. One run of each way of balancing, within
the coordinator's own limits; how fast this machine is has its part in the loads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from tocsin.balancing.arrays import Floats, Longs
from tocsin.experiments.chart import Chart, Panel, Series
from tocsin.experiments.debs2019.drawing import MINUTES, TONES, bars
from tocsin.experiments.debs2019.summary import STEADY, scale
from tocsin.experiments.debs2019.variants import ALPHA
from tocsin.experiments.outcome import Check, Outcome, number
from tocsin.town import CityOptions, Options, Town

BROKERS = 5
#: What a page says first.
INTRO = (
    "On real processes: a data cluster with Spark, a coordinator, brokers and a client for each of the people. One run "
    "of each way of balancing, so there is no spread; loads are what the coordinator was told."
)
#: Seconds of the city, and between two looks of the coordinator at least.
HALF_HOUR, LEAST_LOOK = 1_800.0, 1.0
WAYS = {"no LB": "", "LDM": "ldm", "SDM": "sdm", "LDM + GSH": "multistage", "peal": "peal"}


@dataclass(frozen=True)
class LiveRun:
    """Looks of the coordinator: minutes of the city, looks × brokers, looks."""

    way: str
    time: Floats
    load: Floats
    subscribers: Longs
    cov: Floats
    maximum: Floats
    facts: dict[str, Any]

    @property
    def steady(self) -> slice:
        return slice(int(len(self.time) * (1 - STEADY)), None)


def live(
    *,
    people: int = 400,
    speed: float = 10.0,
    seed: int = 1,
    ways: Sequence[str] = tuple(WAYS),
    minutes: float = HALF_HOUR / 60,
    tell: Callable[[str], None] = lambda text: None,
) -> Outcome:
    runs = []
    for way in ways:
        tell(way)
        runs.append(one(way, people, speed, seed, minutes))
    return outcome(runs, people, speed)


def one(way: str, people: int, speed: float, seed: int, minutes: float) -> LiveRun:
    options = Options(
        brokers=BROKERS,
        port=0,
        placement="nearest",
        strategy=WAYS[way],
        balance_every=max(LEAST_LOOK, 10.0 / speed),
        interval=1.0,
        brief=True,
        city=CityOptions(seed=seed, subscribers=people, speed=speed),
    )
    with Town(options) as town:
        began = time.time()
        facts = town.run(minutes * 60 / speed)
        answer = httpx.get(f"{town.coordinator}/history", params={"limit": 100_000}, timeout=60, trust_env=False)
        answer.raise_for_status()
    return read(way, answer.json()["samples"], speed, facts, began)


def read(way: str, samples: list[dict[str, Any]], speed: float, facts: dict[str, Any], began: float) -> LiveRun:
    """From the answer of ``GET /history``: what the coordinator saw since the city began to live."""
    samples = [sample for sample in samples if sample["time"] >= began]
    names = sorted({name for sample in samples for name in sample["brokers"]})
    rows = [[sample["brokers"].get(name, (0.0, 0.0, 0)) for name in names] for sample in samples]
    table = np.array(rows, dtype=np.float64).reshape(len(samples), len(names), 3)
    return LiveRun(
        way,
        np.array([(sample["time"] - began) * speed / 60 for sample in samples]),
        table[..., 0] + table[..., 1],
        table[..., 2].astype(np.int64),
        np.array([sample["cov"] for sample in samples]),
        np.array([sample["maximum"] for sample in samples]),
        facts,
    )


def outcome(runs: Sequence[LiveRun], people: int, speed: float) -> Outcome:
    title = f"the prototype live: {people:,} people, {BROKERS} brokers, {speed:g} times as fast"
    columns = ["variant", "maximum load", "cov", "migrations", "notifications", "people reached"]
    rows = [
        [
            f"NR + {run.way}",
            volume(float(run.maximum[run.steady].mean())),
            number(float(run.cov[run.steady].mean())),
            f"{run.facts['migrations']:,}",
            f"{run.facts['notifications']:,}",
            f"{run.facts['people_reached']:,}",
        ]
        for run in runs
    ]
    remarks = [
        "λ is a moving average over a minute of the wall clock, however fast the city is: the faster it runs, the less "
        "of it the brokers have seen when they report, and the later balancing begins.",
    ]
    claim = "nearest placement is extremely skewed; LDM and SDM repair it"
    return Outcome("D-proto", title, claim, checks(runs), columns, rows, charts(runs), remarks, data(runs))


def checks(runs: Sequence[LiveRun]) -> list[Check]:
    before = next((run for run in runs if run.way == "no LB"), None)
    found = []
    for run in runs:
        if before is None or run is before:
            continue
        for what, a, b, show in (
            ("maximum load", before.maximum, run.maximum, volume),
            ("cov", before.cov, run.cov, number),
        ):
            x, y = float(a[before.steady].mean()), float(b[run.steady].mean())
            found.append(Check(f"{run.way} lowers the {what}", f"{show(x)} → {show(y)}", (y < x,)))
    return found


def volume(value: float) -> str:
    unit, name = scale(value)
    return f"{number(value / unit)} {name}"


def charts(runs: Sequence[LiveRun]) -> list[Chart]:
    unit, label = scale(max(float(run.load.max(initial=0.0)) for run in runs))
    loads = [
        Panel(
            f"NR + {run.way}",
            MINUTES,
            f"load, {label}",
            [Series(f"broker {j + 1}", run.time, run.load[:, j] / unit, tone=j + 1) for j in range(run.load.shape[1])],
        )
        for run in runs
    ]
    moved = {"migrations": [[float(run.facts["migrations"])] for run in runs]}
    metrics = [
        Panel(
            "Maximum broker load",
            MINUTES,
            label,
            [Series(f"NR + {run.way}", run.time, run.maximum / unit, tone=TONES[run.way]) for run in runs],
        ),
        Panel(
            "Imbalance",
            MINUTES,
            "cov",
            [Series(f"NR + {run.way}", run.time, run.cov, tone=TONES[run.way]) for run in runs],
            level=ALPHA,
            level_name=f"α = {ALPHA:g}",
        ),
        bars("Migrations", "subscribers", [run.way for run in runs], moved, [1]),
    ]
    return [
        Chart("D-proto", "The prototype live: load of every broker, nearest placement", loads, shared=True),
        Chart("D-proto-metrics", "The prototype live: maximum load, cov, migrations", metrics),
    ]


def data(runs: Sequence[LiveRun]) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {key: [] for key in ("balancing", "minutes", "broker", "load", "subscribers")}
    for run in runs:
        looks, brokers = run.load.shape
        out["balancing"] += [run.way] * (looks * brokers)
        out["minutes"] += run.time.repeat(brokers).tolist()
        out["broker"] += list(range(brokers)) * looks
        out["load"] += run.load.ravel().tolist()
        out["subscribers"] += run.subscribers.ravel().tolist()
    return out
