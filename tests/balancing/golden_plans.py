"""Plans of generated networks in a compact form, to be compared with stored ones.

``python tests/balancing/golden_plans.py`` stores the plans of the code as it is: only for a change that is meant to
change plans. Rates are integers and capacities powers of two, so that no sum depends on the machine.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tocsin.balancing.central_host import CentralHost, plan_for
from tocsin.balancing.decisions import Limits, Plan
from tocsin.balancing.model.load import NOWHERE, Load, Status
from tocsin.balancing.model.rows import Rows
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core.strategy_chain import strategy_chain

STORED = Path(__file__).parent / "golden" / "plans.json"
SEEDS = 30
#: Seeds of every test run, where a plan takes long; ``slow`` takes all.
QUICK = {"peal, auto": 2, "peal, regroup": 2}
EVALUATIONS = 5
STRATEGIES: dict[str, tuple[str, dict[str, Any]]] = {
    "drain": ("", {}),
    "ldm": ("ldm", {"alpha": 0.02}),
    "sdm": ("sdm", {"alpha": 0.02, "beta": 5.0}),
    "gsh": ("gsh", {"gamma": 0.05}),
    "multistage, ldm": ("multistage", {"alpha": 0.05, "gamma": 0.3}),
    "multistage, sdm": ("multistage", {"scheme": "sdm", "alpha": 0.02, "gamma": 0.2, "theta": 50.0}),
    "peal, repair": ("peal", {"mode": "repair", "trigger": 0.01}),
    "peal, auto": ("peal", {"mode": "auto", "evaluations": 2, "rest": 20.0, "trigger": 0.0}),
    "peal, regroup": ("peal", {"mode": "regroup", "evaluations": 1, "rest": 5.0, "price": 0.0}),
    "join": ("join", {"share": 0.9}),
}
LIMITS = (
    Limits(),
    Limits(in_flight=12, per_broker=5, cool_down=25.0),
    Limits(in_flight=1_000, per_broker=8, cool_down=15.0, least_gain=0.5),
    Limits(in_flight=40, per_broker=40, cool_down=60.0, least_gain=0.05),
)


def network(rng: np.random.Generator) -> Load:
    """Interests are alike in groups or not, placement is skewed or not, and brokers differ or not."""
    m, q, count = int(rng.integers(2, 7)), int(rng.integers(4, 40)), int(rng.integers(20, 160))
    groups = int(rng.integers(1, 4))
    rows = []
    for u in range(count):
        pool = np.arange(u % groups, q, groups)
        rows.append(rng.choice(pool, rng.integers(0, min(len(pool), 8) + 1), replace=False).tolist())
    share = np.power(rng.choice([1.0, 0.6, 0.3]), np.arange(m))
    at = rng.choice(m, count, p=share / share.sum())
    load = Load.of(Rows(rows), rng.integers(0, 500, q).astype(float), at, np.ones(m))
    if rng.random() < 0.7:
        for j in range(m):
            room = int(rng.choice([10_000, 10_000, load.count[j] + 5, max(1, load.count[j])]))
            load.broker(j, float(rng.choice([1.0, 1.0, 2.0, 0.5])), room)
            load.mark(j, Status(int(rng.choice([0, 0, 0, 0, 0, 1, 2, 3]))))
    return load


def change(load: Load, host: CentralHost, rng: np.random.Generator, now: float) -> None:
    """What happens between two evaluations: some migrations end, subscribers come and go, rates and brokers change."""
    for u, migration in list(host.pending.items()):
        fate = rng.random()
        if fate < 0.7:
            arrives = load.at[u] == migration.source and load.status[migration.target] != Status.GONE
            load.attach(u, migration.target if arrives else int(load.at[u]))
            host.ended(u, now)
        elif fate < 0.8:
            host.ended(u, now)
        elif fate < 0.9:
            host.pending.pop(u)
    for u in rng.choice(len(load.at), 3, replace=False).tolist():
        load.leave(u)
        host.forget(u)
    live = np.flatnonzero(load.status != Status.GONE)
    for u in np.flatnonzero(load.at == NOWHERE)[:2].tolist() if len(live) else ():
        load.join(u, int(rng.choice(live)), rng.choice(len(load.lam), 2, replace=False).tolist())
    some = rng.choice(len(load.lam), len(load.lam) // 3, replace=False)
    load.rates(some, rng.integers(0, 500, len(some)).astype(float))
    if rng.random() < 0.4:
        load.mark(int(rng.integers(load.m)), Status(int(rng.choice([0, 0, 1, 2, 3]))))


def plans(strategy: str, seed: int) -> Iterable[Plan]:
    """Every second seed plans in two halves, as with another process, and the load changes between them."""
    name, settings = STRATEGIES[strategy]
    rng = np.random.default_rng([seed, 14])
    load = network(rng)
    chain = strategy_chain(CoordinatorConfig(strategy=name, settings=settings))
    host = CentralHost(load, chain, LIMITS[seed % len(LIMITS)])
    for evaluation in range(EVALUATIONS):
        now = 10.0 * evaluation
        if seed % 2:
            request = pickle.loads(pickle.dumps(host.request_plan(now)))
            made = plan_for(request)
            yield made
            change(load, host, rng, now + 1.0)
            yield host.adopt(made, now + 2.0)
        else:
            yield host.plan(now)
        change(load, host, rng, now + 5.0)


def compact(plan: Plan) -> list[Any]:
    """Its digest, how many migrations, refusals and drops, the size of a deferred plan, and the first migrations."""
    rows = [[*map(int, each[:3]), each.reason] for each in plan.migrations]
    refused = [[*map(int, each.migration[:3]), str(each.reason)] for each in plan.decisions if not each.accepted]
    dropped = [[*map(int, each[:3])] for each in plan.dropped]
    proposal = plan.found.get("load")
    deferred = -1 if proposal is None else proposal.migrations
    text = json.dumps([rows, refused, dropped, deferred])
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return [digest, len(rows), len(refused), len(dropped), deferred, [row[:3] for row in rows[:2]]]


def recorded(strategy: str, seeds: int = SEEDS) -> list[list[list[Any]]]:
    return [[compact(plan) for plan in plans(strategy, seed)] for seed in range(seeds)]


def main() -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(recorded(name), separators=(',', ':'))}" for name in STRATEGIES]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
