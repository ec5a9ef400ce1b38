"""How good a plan is: the maximum against the lower bound and the optimum, its migrations against the fewest."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.harness import Table
from benchmarks.herd import run as herd
from benchmarks.interests import COMMUNITY, KINDS, network
from tocsin.balancing.model.load import Load
from tocsin.balancing.model.rows import Rows
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies import registry
from tocsin.balancing.strategies.debs2019.gsh import shuffle
from tocsin.balancing.strategies.peal.repair import fewest

PLANS: list[tuple[str, str, dict[str, Any]]] = [
    ("LDM, α .15", "ldm", {"alpha": 0.15}),
    ("LDM, α .05", "ldm", {"alpha": 0.05}),
    ("SDM, α .05", "sdm", {"alpha": 0.05}),
    ("GSH", "gsh", {"gamma": 0.0}),
    ("peal, repair", "peal", {"mode": "repair", "trigger": 0.0}),
    ("peal, auto", "peal", {"trigger": 0.0}),
]
COLUMNS = ["interests", "strategy", "max / bound", "cov", "migrations", "migrations / fewest", "fetched / Σλ"]
SECONDS = 20.0


def run(full: bool) -> list[Table]:
    tables = [quality(False), quality(True), noise(), fresh(6 if full else 3), optimum(12 if full else 6)]
    return [*tables, *herd(full)]


def quality(unequal: bool) -> Table:
    table = Table(
        f"10,000 subscribers, 1,000 BE, 10 {'unequal brokers (1 : 2 : 4)' if unequal else 'equal brokers'}",
        COLUMNS,
        notes=[
            "bound: (ΣO + Σλ) / Σ capacity. fewest: heaviest first from each broker above GSH's maximum, down to it.",
            "fetched / Σλ: by how many brokers each subscription is fetched, weighted by rate.",
            "Clustered: 20 communities of 50 BE, 2% of all interests outside of one's own.",
        ],
    )
    for kind in KINDS:
        rows(table, kind, network(kind, unequal=unequal))
    return table


def rows(table: Table, label: str, load: Load) -> None:
    bound, start, total = load.lower_bound(), load.loads, float(load.lam.sum())
    least = fewest(WhatIf(load), shuffle(WhatIf(load))[2])  # type: ignore[index]
    table.add(label, "none", start.maximum / bound, start.cov, 0, 0.0, float(start.I.sum()) / total)
    for name, strategy, settings in PLANS:
        harness.progress(f"{label} {name}")
        migrations = list(registry.make(strategy, **settings).suggest(WhatIf(load)))
        after = load.as_if(migrations)
        fetched = float(after.I.sum()) / total
        table.add(
            label, name, f"{after.maximum / bound:.4f}", after.cov, len(migrations), len(migrations) / least, fetched
        )


def noise() -> Table:
    table = Table("Clustered interests: how much noise regrouping stands", COLUMNS)
    for share in (0.0, 0.01, 0.02, 0.05, 0.1):
        rows(table, f"{share:.0%} outside", network("clustered", noise=share))
    return table


def fresh(count: int) -> Table:
    """On seeds that nothing was tuned on."""
    table = Table(
        "Clustered interests on other seeds: peal, automatic",
        [
            "seed",
            "brokers",
            "noise",
            "counted / bound",
            "max / bound",
            "migrations",
            "GSH's migrations",
            "GSH's max / bound",
        ],
        notes=[
            "counted: below this mean load hardly any network of these sizes can come, by counting "
            "(docs/explanation/balancing.md); for equal brokers.",
        ],
    )
    for seed in range(101, 101 + count):
        for unequal in (False, True):
            for share in (0.02, 0.05):
                harness.progress(f"seed {seed} {'unequal' if unequal else 'equal'} {share:.0%}")
                load = network("clustered", seed=seed, unequal=unequal, noise=share)
                bound = load.lower_bound()
                migrations = list(registry.make("peal", trigger=0.0).suggest(WhatIf(load)))
                us, targets, shuffled = shuffle(WhatIf(load))  # type: ignore[misc]
                table.add(
                    seed,
                    "unequal" if unequal else "equal",
                    f"{share:.0%}",
                    "" if unequal else f"{counted(load) / bound:.4f}",
                    f"{load.as_if(migrations).maximum / bound:.4f}",
                    len(migrations),
                    int((load.at[us] != targets).sum()),
                    f"{shuffled / bound:.4f}",
                )
    return table


def counted(load: Load) -> float:
    """The mean load below which no assignment is to be expected.

    Suppose each broker holds a share f of all subscriptions: all of the communities that it serves, so that each
    community has h brokers, and a share e of the others. A subscriber with r interests outside of its community finds
    them all at one of its h brokers with probability 1 - (1 - f^r)^h. That this holds for all subscribers is
    less likely than there are ways to choose the e, if f is small: then no choice is to be expected that serves all.
    """
    n, m, q = len(load.at), load.m, len(load.lam)
    community = np.array([np.bincount(load.rows[u] // COMMUNITY).argmax() for u in range(n)])
    owner = np.repeat(np.arange(n), load.rows.size)
    outside = np.bincount(owner, load.rows.gather(np.arange(n))[1] // COMMUNITY != community[owner], n)
    counts = np.bincount(outside.astype(np.int64))
    r = np.arange(len(counts))
    least = 1.0
    for h in range(1, m):
        for e in np.arange(0.0, 1.0, 0.002).tolist():
            f = h / m + (1 - h / m) * e
            served = float(counts @ np.log(1 - (1 - f**r) ** h))
            entropy = -sum(x * np.log(x) for x in (e, 1 - e) if x > 0)
            if served + m * q * (1 - h / m) * entropy >= 0:
                least = min(least, f)
                break
    delivered = float(load.loads.O.sum())
    return (delivered + m * least * float(load.lam.sum())) / float(load.capacity.sum())


def optimum(count: int) -> Table:
    table = Table(
        "Against the exact optimum (HiGHS): 3 brokers, 14 subscribers, 10 BE",
        ["seed", "optimum / bound", "LDM", "SDM", "GSH", "peal"],
        notes=["Maximum load over the optimum. LDM and SDM with α .01, peal automatic without trigger or price."],
    )
    eager: dict[str, dict[str, float]] = {
        "ldm": {"alpha": 0.01},
        "sdm": {"alpha": 0.01},
        "gsh": {"gamma": 0.0},
        "peal": {"trigger": 0.0, "price": 0.0, "least": 0.0},
    }
    for seed in range(count):
        rng = np.random.default_rng(seed)
        interests = [rng.choice(10, rng.integers(1, 5), replace=False).tolist() for _ in range(14)]
        load = Load.of(Rows(interests), rng.normal(100, 25, 10), np.where(rng.random(14) < 0.6, 0, 1), np.ones(3))
        harness.progress(f"optimum {seed}")
        best = exact(load)
        reached = [
            load.as_if(list(registry.make(name, **settings).suggest(WhatIf(load)))).maximum / best
            for name, settings in eager.items()
        ]
        table.add(seed, best / load.lower_bound(), *reached)
    return table


def exact(load: Load) -> float:
    """The smallest possible maximum: x_ij, z_jk and the maximum as a mixed integer program."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_array

    n, m, q = len(load.at), load.m, len(load.lam)
    size = n * m + m * q + 1
    pairs = [(i, int(k)) for i in range(n) for k in load.rows[i]]
    equal, below = lil_array((n, size)), lil_array((m + m * len(pairs), size))
    for i in range(n):
        equal[i, i * m : (i + 1) * m] = 1
    for j in range(m):
        for i in range(n):
            below[j, i * m + j] = load.lam[load.rows[i]].sum()
        below[j, n * m + j * q : n * m + (j + 1) * q] = load.lam
        below[j, size - 1] = -load.capacity[j]
        for row, (i, k) in enumerate(pairs):
            below[m + j * len(pairs) + row, i * m + j] = 1
            below[m + j * len(pairs) + row, n * m + j * q + k] = -1
    goal = np.zeros(size)
    goal[-1] = 1
    upper = np.ones(size)
    upper[-1] = np.inf
    whole = np.ones(size)
    whole[-1] = 0
    found = milp(
        goal,
        constraints=[LinearConstraint(equal.tocsr(), 1, 1), LinearConstraint(below.tocsr(), -np.inf, 0)],
        bounds=Bounds(0, upper),
        integrality=whole,
        options={"time_limit": SECONDS},
    )
    return float(found.fun)


if __name__ == "__main__":
    harness.main("balancing_quality", run)
