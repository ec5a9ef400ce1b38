"""The prototype live: real processes with Spark, a client for each of the people, the city's clock sped up.

What the coordinator has written down is read as a run of the simulation is, so that claims, tables and charts are those
of figures 5 to 12. Each run is stored as soon as it is made, and not made again: half a day of runs can be interrupted.
"""

from __future__ import annotations

import gzip
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
from msgspec import structs

from tocsin.balancing.decisions import Reason
from tocsin.config import CoordinatorConfig, CoordinatorLimits
from tocsin.demo import CityOptions, Demo
from tocsin.errors import UserError
from tocsin.experiments.chart import Chart
from tocsin.experiments.debs2019.charts import broker_loads, metrics
from tocsin.experiments.debs2019.claims import lowers, no_shuffle, repairs
from tocsin.experiments.debs2019.figure import samples
from tocsin.experiments.debs2019.figures import d8, d9, d10, d10s
from tocsin.experiments.debs2019.summary import COLUMNS, row
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check, Outcome, Spread
from tocsin.local import Options
from tocsin.simulation.flow import Run
from tocsin.simulation.flow.results import Migration, Samples

BROKERS, PEOPLE = 5, 400
#: The head of the page.
TITLE = "DEBS 2019, the prototype live"
INTRO = (
    "On real processes: a data cluster with Spark, a coordinator, brokers and a client for each of the people. Loads "
    "are what the brokers reported, in bytes for a second of the city's time."
)
CLAIM = (
    "nearest placement is extremely skewed; LDM and SDM repair it with far more migrations than random placement and "
    "round robin need, and an early shuffle spares migrations"
)
PLACES, WAYS = ("NR", "RND", "RR"), ("no LB", "LDM", "SDM", "LDM + GSH", "peal")
VARIANTS = tuple(Variant("proto", place, way) for place in PLACES for way in WAYS)
#: How far the outer brokers stand from the middle of the city: nearest placement gets the skew of the simulation, at
#: which the paper's γ invokes the shuffle.
REACH = 0.65
#: Seconds of the city; least seconds between two samples of the coordinator, and between two reports of progress.
HALF_HOUR, LEAST_INTERVAL, PROGRESS = 1_800.0, 1.0, 1.0
#: The share of the highest mean load below which there is nothing to balance yet, and cov is not drawn.
HARDLY = 0.1
#: Most rows that the coordinator returns at a time.
MOST = 100_000

#: Called with each run and the share of it that is done.
Progress = Callable[[Variant, int, float], None]


class Record(msgspec.Struct):
    """What is kept of a run: the size of the city, the coordinator's answers, and the demo's summary."""

    variant: str
    seed: int
    people: int
    speed: float
    minutes: float
    began: float
    machine: str
    samples: list[dict[str, Any]]
    log: list[dict[str, Any]]
    facts: dict[str, Any]

    def read(self) -> Run:
        return read(self.samples, self.log, self.speed, self.began)


def live(
    folder: Path,
    *,
    people: int = PEOPLE,
    speed: float = 10.0,
    seeds: int = 1,
    minutes: float = HALF_HOUR / 60,
    most: int | None = None,
    progress: Progress = lambda variant, seed, share: None,
) -> Outcome:
    """Makes the runs that the folder does not have, at most this many, and judges all that it has then."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [(seed, variant) for seed in range(1, seeds + 1) for variant in VARIANTS]
    found: dict[tuple[int, Variant], Record] = {}
    for seed, variant in wanted:
        path = folder / f"{variant.name.replace(' ', '')}-{seed}.json.gz"
        if path.exists():
            found[seed, variant] = stored(path, people, speed, minutes)
        elif most is None or most > 0:
            most = None if most is None else most - 1
            record = one(variant, people, speed, seed, minutes, partial(progress, variant, seed))
            whole = path.with_suffix(".part")
            whole.write_bytes(gzip.compress(msgspec.json.encode(record), mtime=0))
            whole.replace(path)
            found[seed, variant] = record
    return outcome(found, seeds, people, speed)


def stored(path: Path, people: int, speed: float, minutes: float) -> Record:
    try:
        record = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Record)
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        raise UserError(f"{path} is not a run: {error}", hint="remove the file; the run is made again") from error
    if (record.people, record.speed, record.minutes) != (people, speed, minutes):
        made = f"{record.people} people, speed {record.speed:g} and {record.minutes:g} minutes"
        raise UserError(f"{path} was made with {made}", hint="use these, or another folder: --out")
    return record


def one(
    variant: Variant, people: int, speed: float, seed: int, minutes: float, progress: Callable[[float], None]
) -> Record:
    progress(0.0)
    city = CityOptions(seed=seed, subscribers=people, speed=speed, reach=REACH)
    with Demo(Options(brokers=BROKERS, settings=settings(variant, people, speed), brief=True), city) as demo:
        began, seconds = time.time(), minutes * 60 / speed
        while (left := began + seconds - time.time()) > 0:
            time.sleep(min(PROGRESS, left))
            progress(min(1.0, 1 - left / seconds))
        facts = demo.summary()
        coordinator = demo.deployment.coordinator
        samples, log = asked(coordinator, "history")["samples"], asked(coordinator, "balance/log")["log"]
    progress(1.0)
    return Record(variant.name, seed, people, speed, minutes, began, machine(), samples, log, facts)


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


def outcome(found: Mapping[tuple[int, Variant], Record], wanted: int, people: int, speed: float) -> Outcome:
    """Of the seeds that have a run of every variant; if none has, of the first seed."""
    if not found:
        raise UserError("there are no runs to show", hint="--most 1 or more makes some")
    whole = tuple(seed for seed in range(1, wanted + 1) if all((seed, variant) in found for variant in VARIANTS))
    seeds = whole or (min(seed for seed, _ in found),)
    there = [variant for variant in VARIANTS if (seeds[0], variant) in found]
    runs = Runs(seeds)
    for variant in there:
        for seed in seeds:
            runs.keep(variant, seed, found[seed, variant].read())
    rows = []
    for variant in there:
        facts = [found[seed, variant].facts for seed in seeds]
        counts = (Spread(tuple(float(each[name]) for each in facts)) for name in ("notifications", "people_reached"))
        rows.append([*row(variant.name, runs.of(variant)), *map(str, counts)])
    machines = " and ".join(sorted({each.machine for each in found.values()}))
    made, all_ = len(there) * len(seeds), len(VARIANTS) * wanted
    remarks = [
        f"{made} of {all_} runs, on {machines}. The city runs {speed:g} times as fast as the clock.",
        "A broker's λ is a moving average over a minute of the clock, however fast the city is: the faster it runs, "
        "the less of it brokers have seen when they report, and the later the load shows.",
        "Where an execution takes longer than its sped up period the next one brings more at a time: fewer "
        "notifications with as many bytes.",
    ]
    return Outcome(
        "D-proto",
        f"the prototype live: {people:,} people, {BROKERS} brokers, {speed:g} times as fast",
        CLAIM,
        checks(runs, there),
        [*COLUMNS, "notifications", "people reached"],
        rows,
        charts(runs, there),
        remarks,
        data(runs, there),
        f"after {made} of {all_} runs; depends on β = θ = 30 kB/s, which the paper does not give",
    )


def charts(runs: Runs, there: Sequence[Variant]) -> list[Chart]:
    """One of each kind, of the first placement that was run."""
    some = [variant for variant in there if variant.placement == there[0].placement]
    title = f"The prototype live, {there[0].placement} placement"
    return [
        broker_loads("D-proto", f"{title}: load of every broker", some)(runs),
        metrics("D-proto-metrics", f"{title}: maximum load, cov, migrations", some, HARDLY)(runs),
    ]


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    programs = f"Python {platform.python_version()}, Spark {version('pyspark')}"
    return f"a machine with {cores} cores and {memory:.0f} GiB of memory, {programs}"


def checks(runs: Runs, there: Sequence[Variant]) -> list[Check]:
    """Those whose variants were all run."""
    ready = tuple(Variant("proto", place, "LDM + GSH") for place in ("RND", "RR"))
    compared: list[tuple[tuple[Variant, ...], Callable[[], list[Check]]]] = [
        ((d8.NONE,), lambda: [d8.extreme(runs)]),
        *(((d8.NONE, each), partial(repaired, runs, each)) for each in (d8.LDM, d8.SDM, d9.LDM)),
        ((d8.LDM, d8.SDM), lambda: d10s.close(runs, d8.LDM, d8.SDM)),
        ((d9.LDM,), lambda: [replace(d9.early(runs, d9.LDM), direction=False)]),
        ((d8.LDM, d9.LDM), lambda: [d9.fewer(runs, d8.LDM, d9.LDM)]),
        (tuple(Variant("proto", place, "LDM") for place in PLACES), lambda: [d10.many_more(runs, "LDM")]),
        (tuple(Variant("proto", place, "SDM") for place in PLACES), lambda: [d10.many_more(runs, "SDM")]),
        (ready, lambda: [no_shuffle(runs, ready)]),
    ]
    return [check for needed, make in compared if set(needed) <= set(there) for check in make()]


def repaired(runs: Runs, variant: Variant) -> list[Check]:
    return [*lowers(runs, d8.NONE, variant), repairs(runs, d8.NONE, variant)]


def data(runs: Runs, there: Sequence[Variant]) -> dict[str, list[Any]]:
    """The samples without what the coordinator does not sample."""
    found = samples(runs, there)
    found["load"] = [here + out for here, out in zip(found["load_in"], found["load_out"], strict=True)]
    names = ("placement", "balancing", "seed", "seconds", "broker", "load", "subscribers", "migrations_so_far")
    return {name: found[name] for name in names}
