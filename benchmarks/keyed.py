"""A keyed dataset of 1M keys under 10,000 upserts a second: does reading stay as cheap as it was?"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from benchmarks import harness, ours
from benchmarks.harness import Table, median, p99
from tocsin.cluster.model import Post

KEYS = 1_000_000
POST = 1_000
POSTS = 10
EVERY = 5.0
FLAT = 1.3
QUERY = "SELECT count(*) AS users, avg(lat) AS lat, max(lon) AS lon FROM UserLocations"


def run(full: bool) -> list[Table]:
    seconds = 180.0 if full else 60.0
    table = Table(
        f"{KEYS:,} keys, {POST * POSTS:,} upserts a second",
        ["second", "read, ms", "upserts/s so far", "rows since the last compaction", "compactions"],
    )
    with ours.cluster(ours.USERS, driver_memory="4g") as data:
        spread = random.Random(5)
        for start in range(0, KEYS, 100_000):
            ours.publish(data, "Locations", [location(n, spread) for n in range(start, start + 100_000)])
        bodies = [
            ours.ndjson([location(spread.randrange(KEYS), spread) for _ in range(POST)]) for _ in range(50 * POSTS)
        ]
        data.maintenance.compact()
        (store,) = data.context.stores.values()
        upserts = Upserts(data, bodies)
        upserts.start()
        # A JVM that still warms up would make the first reads slow and hide growth.
        harness.seconds(lambda: check(data), 8, 0)
        before, started, posted = compactions(data), time.perf_counter(), upserts.done
        reads: list[float] = []
        while (at := time.perf_counter() - started) < seconds:
            done, waiting = upserts.done - posted, store.recent_rows
            took = harness.seconds(lambda: check(data), 1, 0)[0]
            reads.append(took)
            table.add(at, took * 1e3, done / at if done else None, waiting, compactions(data) - before)
            time.sleep(max(0.0, started + len(reads) * EVERY - time.perf_counter()))
        elapsed, done = time.perf_counter() - started, upserts.done - posted
        upserts.end()
    third = len(reads) // 3
    first, last = median(reads[:third]), median(reads[-third:])
    table.notes += [
        f"Read: `{QUERY}` through the facade. Median of the first third {first * 1e3:.0f} ms, of the last third "
        f"{last * 1e3:.0f} ms: {last / first:.2f}× (flat: at most {FLAT:g}×).",
        f"{done:,} upserts in {elapsed:.0f} s, posts of {POST:,} records; durable after p50 "
        f"{median(upserts.latencies) * 1e3:.0f} ms, p99 {p99(upserts.latencies) * 1e3:.0f} ms.",
    ]
    return [table]


def location(number: int, spread: random.Random) -> dict[str, Any]:
    return {
        "user_id": f"user-{number:07}",
        "lat": round(60 + spread.random(), 6),
        "lon": round(24 + spread.random(), 6),
        "time": "2026-11-20T12:00:00.000Z",
    }


def check(data: Any) -> None:
    users = data.query(QUERY)["users"][0].as_py()
    if users != KEYS:
        raise RuntimeError(f"{users} keys instead of {KEYS}")


def compactions(data: Any) -> int:
    return int(data.metrics.compactions.labels("UserLocations", "ok")._value.get())


class Upserts(threading.Thread):
    """Posts at a fixed pace; a post that is late does not shift the others."""

    def __init__(self, data: Any, bodies: list[bytes]) -> None:
        super().__init__(daemon=True)
        self.data = data
        self.bodies = bodies
        self.done = 0
        self.latencies: list[float] = []
        self._over = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        begun = time.perf_counter()
        turn = 0
        try:
            while not self._over.wait(max(0.0, begun + turn / POSTS - time.perf_counter())):
                due = begun + turn / POSTS
                body = self.bodies[turn % len(self.bodies)]
                self.data.publish(Post("Locations", body, content_type="application/x-ndjson")).result(60)
                self.latencies.append(time.perf_counter() - due)
                self.done += POST
                turn += 1
        except BaseException as error:
            self._failure = error

    def end(self) -> None:
        self._over.set()
        self.join(90)
        if self._failure is not None:
            raise self._failure


if __name__ == "__main__":
    harness.main("keyed", run)
