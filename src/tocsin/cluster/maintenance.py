"""Background tasks: compaction, expiry of results, and restarts of Spark."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tocsin.cluster.context import ClusterContext
from tocsin.cluster.model import Channel
from tocsin.cluster.storage.compaction import Compactor
from tocsin.errors import Conflict, Damaged, TocsinError

log = logging.getLogger(__name__)

HOUSEKEEPING = 30.0
WATCH = 1.0
LONGEST_PAUSE = 60.0
#: Seconds without an answer of the JVM after which the data cluster is not ready.
SLOW = 3.0


class Maintenance:
    """``spark_up`` is called in the thread that watches Spark, each time Spark is up, and ``repaired`` when a dataset
    that was failing can be read again."""

    def __init__(
        self,
        context: ClusterContext,
        compactor: Compactor,
        spark_up: Callable[[], None],
        repaired: Callable[[], None] = lambda: None,
    ) -> None:
        self.repaired = repaired
        self.context = context
        self.compactor = compactor
        self.spark_up = spark_up
        self._stop = threading.Event()
        self._asker = ThreadPoolExecutor(1, "spark-asker")
        self._appended = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep_house, name="housekeeping", daemon=True),
            threading.Thread(target=self._watch_spark, name="spark-watch", daemon=True),
        ]
        context.on_append.append(lambda heads: self._appended.set())

    def start(self, spark: bool = True) -> None:
        for thread in self._threads if spark else self._threads[:1]:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        self._appended.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._asker.shutdown(wait=False)

    # -- housekeeping ------------------------------------------------------------------------------------------------

    def _keep_house(self) -> None:
        last = 0.0
        while not self._stop.is_set():
            try:
                self.compact()
                if time.monotonic() - last > HOUSEKEEPING:
                    last = time.monotonic()
                    self.expire()
                    self.reload()
            except TocsinError as error:
                log.warning("housekeeping failed, and is tried again: %s", error)
            except Exception:
                log.exception("housekeeping failed")
            self._appended.wait(HOUSEKEEPING)
            self._appended.clear()
            self._stop.wait(0.2)  # one pass for many commits

    def compact(self) -> int:
        """Compact every dataset that needs it; return how many."""
        runtime = self.context.runtime if self.context.runtime.state == "up" else None
        done = 0
        for store in list(self.context.stores.values()):
            if not store.damaged and self.compactor.due(store) and store.dataset.id in self.context.stores:
                try:
                    if self.compactor.run(store, runtime, wait=False):
                        done += 1
                        self.context.metrics.compactions.labels(store.dataset.name, "ok").inc()
                except (TocsinError, PySparkException, Py4JError) as error:
                    self.context.metrics.compactions.labels(store.dataset.name, "failed").inc()
                    log.warning("compaction of %s failed: %s", store.dataset.name, error)
                    if isinstance(error, Conflict) and error.fields.get("gone"):
                        self.context.load_dataset(store)  # an uncertain change was made after all
                    with suppress(Damaged):
                        self.context.blame([store], error)
        return done

    def reload(self) -> None:
        """Read the datasets again that are failing: their files may have been restored."""
        for store in [store for store in list(self.context.stores.values()) if store.damaged]:
            if not store.maintenance.acquire(blocking=False):
                continue  # a statement changes or repairs it; the other datasets do not wait
            try:
                self.context.load_dataset(store)
            finally:
                store.maintenance.release()
            if not store.damaged:
                self.repaired()

    def expire(self, now: float | None = None) -> int:
        """Delete expired results and idempotency keys; return the number of deleted result files."""
        if now is None:
            now = self.context.clock.expiry()
            self.context.catalog.keep_time(now)
        deleted = 0
        for channel in self.context.definitions.all(Channel):
            retention = channel.retention if channel.retention is not None else self.context.config.retention
            paths = self.context.catalog.expire(channel.id, now - retention)
            self.context.segments.delete(paths)
            deleted += len(paths)
            first = self.context.catalog.first_execution(channel.id)
            for key in [key for key in list(self.context.damaged) if key[0] == channel.id and key[1] < first]:
                del self.context.damaged[key]
        self.context.catalog.forget_keys(now - self.context.config.idempotency)
        return deleted

    # -- Spark -------------------------------------------------------------------------------------------------------

    def _watch_spark(self) -> None:
        """Start Spark, and restart it when it dies, with growing pauses after failures."""
        runtime = self.context.runtime
        failures = 0
        if runtime.alive():
            self.spark_up()
        while not self._stop.is_set():
            if not self._spark_answers():
                died = runtime.state == "dead"
                if died:
                    log.warning("Spark has died (%s); starting it again", runtime.reason)
                try:
                    self.context.metrics.spark("starting")
                    runtime.restart() if died else runtime.start()
                    failures = 0
                    self.context.metrics.spark("up")
                    self.spark_up()
                except Exception as error:
                    failures += 1
                    self.context.metrics.spark("dead")
                    log.error("Spark did not start: %s", error)
            else:
                self._cancel_overdue()
            self._stop.wait(WATCH if not failures else min(LONGEST_PAUSE, 2.0**failures))

    def _spark_answers(self) -> bool:
        """Whether the JVM and the session are alive. A JVM that does not answer in time counts as dead."""
        runtime, limit = self.context.runtime, self.context.config.jvm_seconds
        asked = self._asker.submit(runtime.alive)
        for seconds in (min(SLOW, limit), max(0.0, limit - SLOW)):
            if wait([asked], seconds).done:
                runtime.answers = True
                return asked.result()
            runtime.answers = False
        return runtime.mark_dead(f"Spark's JVM has not answered for {limit:g} s")

    def _cancel_overdue(self) -> None:
        try:
            self.context.runtime.cancel_overdue()
        except (TocsinError, Py4JError, OSError) as error:
            log.warning("overdue work could not be cancelled: %s", error)
