"""Orders of the coordinator's whole state machine in generated networks, to be compared with stored ones.

``python tests/coordinator/golden_orders.py`` stores those of the code as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from coordinator_harness import CoordinatorHarness

STORED = Path(__file__).parent / "golden" / "orders.json"
SEEDS = 3
SECONDS = 90
STRATEGIES: dict[str, tuple[str, dict[str, Any]]] = {
    "drain": ("", {}),
    "ldm": ("ldm", {"alpha": 0.05}),
    "gsh": ("gsh", {"gamma": 0.1}),
    "multistage": ("multistage", {"scheme": "sdm", "alpha": 0.05, "gamma": 0.3}),
    "peal": ("peal", {"evaluations": 2, "rest": 30.0, "trigger": 0.01}),
    "join": ("join", {"share": 0.8}),
}


class Brokers:
    """They follow orders one second later; some subscribers stay, rates change, and one broker is drained."""

    def __init__(self, strategy: str, seed: int) -> None:
        name, settings = STRATEGIES[strategy]
        self.rng, offloaded = Random(seed), seed % 2 == 1
        self.harness = CoordinatorHarness(
            offloaded=offloaded, strategy=name, settings=settings, balance_every=5.0, cool_down=20.0, per_second=4.0
        )
        self.here: dict[str, dict[str, list[int]]] = {each: {} for each in "abcd"}
        for number in range(40):
            broker = self.rng.choice("aaab")
            self.here[broker][f"subscriber-{number:04}"] = sorted(self.rng.sample(range(12), self.rng.randint(1, 5)))
        rates = {k: float(self.rng.randint(1, 300)) for k in range(12)}
        for broker, row in self.here.items():
            self.harness.register(broker, capacity=self.rng.choice([1.0, 2.0]))
            self.harness.report(broker, row, full=True, rates=rates)

    def run(self) -> Iterator[list[str]]:
        arrived: dict[str, dict[str, list[int]]] = {each: {} for each in self.here}
        left: dict[str, list[str]] = {each: [] for each in self.here}
        for second in range(SECONDS):
            self.harness.tick()
            self.harness.make_plan()
            if second == 30:
                self.harness.drain("b")
            if second == 60:
                self.harness.drain("b", undo=True)
            for broker in self.here:
                rates = {self.rng.randrange(12): float(self.rng.randint(1, 300))} if self.rng.random() < 0.1 else {}
                come, arrived[broker] = arrived[broker], {}
                gone, left[broker] = left[broker], []
                for order in self.harness.report(broker, come, left=gone, rates=rates).migrations:
                    yield [order.subscriber, broker, order.broker]
                    if self.rng.random() < 0.9:
                        row = self.here[broker].pop(order.subscriber)
                        self.here[order.broker][order.subscriber] = arrived[order.broker][order.subscriber] = row
                        left[broker].append(order.subscriber)


def recorded(strategy: str) -> list[list[Any]]:
    """For each seed the digest of all orders and notes, how many orders, and the first ones."""
    found = []
    for seed in range(SEEDS):
        brokers = Brokers(strategy, seed)
        orders = list(brokers.run())
        notes = [[each.kind, each.text, each.subscriber, each.source, each.target] for each in brokers.harness.notes]
        digest = hashlib.sha256(json.dumps([orders, notes]).encode()).hexdigest()[:16]
        found.append([digest, len(orders), orders[:6]])
    return found


if __name__ == "__main__":
    rows = [f"{json.dumps(name)}: {json.dumps(recorded(name))}" for name in STRATEGIES]
    STORED.write_text("{\n" + ",\n".join(rows) + "\n}\n")
