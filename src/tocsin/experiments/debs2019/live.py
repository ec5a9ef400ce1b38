"""The prototype live: real processes with Spark, a client for each of the people, the city's clock sped up.

One run of each way of balancing. What the coordinator has written down is read as a run of the simulation is, so that
claims, tables and charts are those of figures 8 to 10.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

import httpx
import numpy as np
from msgspec import structs

from tocsin.balancing.decisions import Reason
from tocsin.config import CoordinatorConfig, CoordinatorLimits
from tocsin.demo import CityOptions, Demo
from tocsin.experiments.debs2019 import d8, d9, d10s
from tocsin.experiments.debs2019.charts import broker_loads, metrics
from tocsin.experiments.debs2019.claims import lowers
from tocsin.experiments.debs2019.figure import samples
from tocsin.experiments.debs2019.summary import COLUMNS, row
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check, Outcome
from tocsin.local import Options
from tocsin.simulation.flow import Run
from tocsin.simulation.flow.results import Migration, Samples

BROKERS, PEOPLE = 5, 400
#: The head of the page.
TITLE = "DEBS 2019, the prototype live"
INTRO = (
    "On real processes: a data cluster with Spark, a coordinator, brokers and a client for each of the people. One run "
    "of each way of balancing, so there is no spread. Loads are what the brokers reported, in bytes for a second "
    "of the city's time."
)
CLAIM = "nearest placement is extremely skewed; LDM and SDM repair it, and an early shuffle spares migrations"
VARIANTS = (d8.NONE, d8.LDM, d8.SDM, d9.LDM, d8.PEAL)
#: Seconds of the city; least seconds between two samples of the coordinator, and between two reports of progress.
HALF_HOUR, LEAST_INTERVAL, PROGRESS = 1_800.0, 1.0, 1.0
#: The share of the highest mean load below which there is nothing to balance yet, and cov is not drawn.
HARDLY = 0.1
CHARTS = (
    broker_loads("D-proto", "The prototype live: load of every broker, nearest placement", VARIANTS),
    metrics("D-proto-metrics", "The prototype live: maximum load, cov, migrations", VARIANTS, HARDLY),
)
#: Most rows that the coordinator returns at a time.
MOST = 100_000

#: Called with each run and the share of it that is done.
Progress = Callable[[Variant, float], None]


def live(
    *,
    people: int = PEOPLE,
    speed: float = 10.0,
    seed: int = 1,
    minutes: float = HALF_HOUR / 60,
    progress: Progress = lambda variant, share: None,
) -> Outcome:
    runs, facts = Runs((seed,)), []
    for variant in VARIANTS:
        run, fact = one(variant, people, speed, seed, minutes, partial(progress, variant))
        runs.keep(variant, seed, run)
        facts.append(fact)
    return outcome(runs, facts, people, speed)


def one(
    variant: Variant, people: int, speed: float, seed: int, minutes: float, progress: Callable[[float], None]
) -> tuple[Run, dict[str, Any]]:
    progress(0.0)
    city = CityOptions(seed=seed, subscribers=people, speed=speed)
    with Demo(Options(brokers=BROKERS, settings=settings(variant, people, speed), brief=True), city) as demo:
        began, seconds = time.time(), minutes * 60 / speed
        while (left := began + seconds - time.time()) > 0:
            time.sleep(min(PROGRESS, left))
            progress(min(1.0, 1 - left / seconds))
        facts = demo.summary()
        coordinator = demo.deployment.coordinator
        samples, log = asked(coordinator, "history")["samples"], asked(coordinator, "balance/log")["log"]
    progress(1.0)
    return read(samples, log, speed, began), facts


def settings(variant: Variant, people: int, speed: float) -> CoordinatorConfig:
    """The settings of the simulation; β and θ grow with the number of people and the speed, as the load does."""
    config = variant.settings
    parameters = {
        name: value * speed * people / PEOPLE if name in ("beta", "theta") and not isinstance(value, str) else value
        for name, value in config.settings.items()
    }
    return structs.replace(
        config,
        settings=parameters,
        interval=LEAST_INTERVAL,
        balance_every=max(LEAST_INTERVAL, config.balance_every / speed),
        # A migration may fail here; do not wait for it until the end.
        limits=structs.replace(config.limits, migration_timeout=CoordinatorLimits().migration_timeout),
    )


def asked(coordinator: str, what: str) -> dict[str, Any]:
    answer = httpx.get(f"{coordinator}/{what}", params={"limit": MOST}, timeout=60, trust_env=False)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def read(samples: list[dict[str, Any]], log: list[dict[str, Any]], speed: float, began: float) -> Run:
    """The run since the start of the city, from the coordinator's ``GET /history`` and ``GET /balance/log``.

    Times are the city's; loads are bytes per second of the city. The coordinator does not sample bytes and
    deliveries, so these stay empty.
    """
    samples = [sample for sample in samples if sample["time"] >= began]
    names = sorted({name for sample in samples for name in sample["brokers"]})
    rows = [[sample["brokers"].get(name, (0.0, 0.0, 0)) for name in names] for sample in samples]
    table = np.array(rows, dtype=np.float64).reshape(len(samples), len(names), 3)
    seconds = np.array([(sample["time"] - began) * speed for sample in samples])
    migrations = arrivals([note for note in log if note["time"] >= began], names, speed, began)
    none = np.zeros(table.shape[:2], dtype=np.int64)
    so_far = np.searchsorted([each.time for each in migrations], seconds, side="right").astype(np.int64)
    sampled = Samples(
        seconds,
        table[..., 0] / speed,
        table[..., 1] / speed,
        table[..., 2].astype(np.int64),
        none,
        none,
        so_far,
        np.zeros(len(samples)),
        np.ones(len(names)),
    )
    each = np.zeros(len(names), dtype=np.int64)
    return Run(sampled, each, each, each, 0, np.zeros(0, dtype=np.int64), migrations)


def arrivals(log: list[dict[str, Any]], names: list[str], speed: float, began: float) -> list[Migration]:
    """The completed migrations, with the reason of each."""
    why: dict[str, str] = {}
    found = []
    for note in log:
        who, (word, _, reason) = note["subscriber"], note["text"].partition(": ")
        if note["kind"] == "migration" and word == Reason.ACCEPTED.value:
            why[who] = reason
        elif note["kind"] == "migration" and word == Reason.DONE.value and who in why:
            source, target = names.index(note["source"]), names.index(note["target"])
            found.append(Migration((note["time"] - began) * speed, list(why).index(who), source, target, why[who]))
    return found


def outcome(runs: Runs, facts: Sequence[dict[str, Any]], people: int, speed: float) -> Outcome:
    title = f"the prototype live: {people:,} people, {BROKERS} brokers, {speed:g} times as fast"
    columns = [*COLUMNS, "notifications", "people reached"]
    rows = [
        [
            *row(variant.name, runs.of(variant)),
            *(f"{fact[name]:,}" for name in ("notifications", "people_reached")),
        ]
        for variant, fact in zip(VARIANTS, facts, strict=True)
    ]
    remarks = [
        f"One run of each, on {machine()}. The city runs {speed:g} times as fast as the clock.",
        "A broker's λ is a moving average over a minute of the clock, however fast the city is: the faster it runs, "
        "the less of it brokers have seen when they report, and the later the load shows.",
        "Where an execution takes longer than its sped up period the next one brings more at a time: fewer "
        "notifications with as many bytes.",
    ]
    drawn = [draw(runs) for draw in CHARTS]
    return Outcome("D-proto", title, CLAIM, checks(runs), columns, rows, drawn, remarks, data(runs))


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    programs = f"Python {platform.python_version()}, Spark {version('pyspark')}"
    return f"a machine with {cores} cores and {memory:.0f} GiB of memory, {programs}"


def checks(runs: Runs) -> list[Check]:
    found = [d8.extreme(runs)]
    for variant in (d8.LDM, d8.SDM, d9.LDM):
        found += lowers(runs, d8.NONE, variant)
    found += [d8.repaired(runs, variant) for variant in (d8.LDM, d8.SDM)]
    found += d10s.close(runs, d8.LDM, d8.SDM)
    # A shuffle comes only where cov is above γ; that there was none says nothing against the rest.
    early = replace(d9.early(runs, d9.LDM), direction=False)
    return [*found, early, *([d9.fewer(runs, d8.LDM, d9.LDM)] if any(early.holds) else [])]


def data(runs: Runs) -> dict[str, list[Any]]:
    """The samples without what the coordinator does not sample."""
    found = samples(runs, VARIANTS)
    found["load"] = [here + out for here, out in zip(found["load_in"], found["load_out"], strict=True)]
    names = ("balancing", "seconds", "broker", "load", "subscribers", "migrations_so_far")
    return {name: found[name] for name in names}
