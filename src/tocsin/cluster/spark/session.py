"""The Spark session of a data cluster: starts it, checks whether it is alive, and restarts it."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

from tocsin.cluster.spark import guard, internals
from tocsin.cluster.spark.cds_archive import CdsArchive
from tocsin.cluster.spark.java import find_java
from tocsin.cluster.spark.work import Kind, WorkList
from tocsin.config import ClusterConfig
from tocsin.errors import Busy, NotReady, UserError

State = Literal["starting", "up", "dead", "stopped"]

_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]")

_SHUFFLE = "spark.sql.shuffle.partitions"

#: Seconds that a query waits for a place.
QUEUE_SECONDS = 5.0

SETTINGS = {
    # Small repeated queries: replanning between stages costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # One channel must not delay the others.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Tables from the driver stay LocalRelations (no job, no RDD of Arrow batches) up to this size.
    "spark.sql.execution.arrow.localRelationThreshold": "512MB",
    # The build side of a channel's join (subscriptions or new records) is broadcast up to this size.
    "spark.sql.autoBroadcastJoinThreshold": "50MB",
    # All cores read a file of some hundred kilobytes.
    "spark.sql.files.openCostInBytes": "64KB",
    # Compiled parts of plans in the cache; a channel with joins has twenty in the driver and twenty in the executor.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # The Parquet type that all engines read, with statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A bulk write has two folders, of good and of refused rows; with two open files a task need not sort them.
    "spark.sql.maxConcurrentOutputFileWriters": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    # Every execution describes its plan for the UI; the short form is the cheapest.
    "spark.sql.ui.explainMode": "simple",
    # Almost no history, so that the memory of the driver does not grow for days.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.ui.retainedDeadExecutors": "5",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
}


class SparkRuntime:
    """One per process: PySpark keeps its gateway and context in class variables."""

    def __init__(self, config: ClusterConfig, *, extra: Mapping[str, str] | None = None) -> None:
        self.config = config
        self.state: State = "stopped"
        self.reason = "not started"
        #: Counts the sessions: views and DataFrames of an earlier session no longer exist.
        self.generation = 0
        self._extra = dict(extra or {})
        self._session: SparkSession | None = None
        self._gateway: Any = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._jcontext: Any = None
        self._archive: CdsArchive | None = None
        self._lock = threading.RLock()
        self._groups = count(1)
        self._work = WorkList()
        self._places = threading.BoundedSemaphore(config.query_threads)
        #: Whether queries use Spark's private API (``internals``).
        self.private_api = config.private_api
        #: Whether the JVM has answered the last check in time.
        self.answers = True

    @property
    def session(self) -> SparkSession:
        session = self._session
        if session is None or self.state != "up":
            raise NotReady(f"Spark is {self.state}: {self.reason}", hint="wait until /readyz answers 200")
        return session

    @property
    def dialect(self) -> dict[str, str]:
        """The settings that can change the meaning of a query."""
        settings = {**SETTINGS, **self.config.spark, **self._extra}
        return {key: value for key, value in settings.items() if key.startswith(("spark.sql.", "spark.jars"))}

    @property
    def tasks(self) -> int:
        """About how many tasks the last stage of a query has."""
        return int(self.config.spark.get(_SHUFFLE) or self._extra.get(_SHUFFLE) or _partitions(self.config.master))

    @property
    def log(self) -> Path:
        return Path(self.config.home).resolve() / "logs" / "spark.log"

    @property
    def pid(self) -> int | None:
        """The JVM's process."""
        return self._gateway.proc.pid if self._gateway is not None else None

    # --- life

    def start(self) -> None:
        """Blocks until queries can run (seconds). Raises UserError when Spark cannot start as configured."""
        with self._lock:
            if self.state == "up":
                return
            if SparkContext._active_spark_context is not None or SparkContext._gateway is not None:
                raise UserError(
                    "this process already runs a Spark session", hint="start only one data cluster per process"
                )
            self.state, self.reason = "starting", "Spark is starting"
            before = self.log.stat().st_size if self.log.is_file() else 0
            try:
                self._launch()
            except BaseException as error:
                reason = first_line(error)  # the text of a Java exception comes from the JVM, which ends now
                self._abandon()
                if isinstance(error, PySparkRuntimeError):  # "the gateway exited": the log of the JVM says more
                    reason = _last_words(self.log, before)
                self.state, self.reason = "dead", f"Spark did not start: {reason}"
                if isinstance(error, (UserError, KeyboardInterrupt, SystemExit)):
                    raise
                raise UserError(self.reason, hint=f"see {self.log}") from error
            self.generation += 1
            self.state, self.reason, self.answers = "up", "", True

    def stop(self, seconds: float = 60.0) -> None:
        """End the session and its JVM, and wait until they have ended; after ``seconds``, kill the JVM."""
        with self._lock:
            # A JVM that is marked as dead may not answer.
            gateway, alive, classes = self._gateway, self.state != "dead" and self.alive(), 0
            if alive and self._session is not None:
                with suppress(Py4JError):  # the JVM may die meanwhile; it must end anyway
                    beans = gateway.jvm.java.lang.management.ManagementFactory
                    classes = beans.getClassLoadingMXBean().getLoadedClassCount()
                    self._session.stop()
            self._abandon(wait=seconds if alive else 0.0)
            if gateway is not None and self._archive is not None:
                self._archive.store(classes)
            self.state, self.reason = "stopped", "stopped"

    def restart(self) -> None:
        """Start a new JVM and session; views and DataFrames of the old one no longer work."""
        with self._lock:
            self.stop()
            self.start()

    def alive(self) -> bool:
        """Whether the JVM and the context are alive. Runs no job; takes about a tenth of a millisecond."""
        gateway, jcontext = self._gateway, self._jcontext
        if gateway is None or jcontext is None:
            return False
        code = gateway.proc.poll()
        if code is not None:
            return self.mark_dead(f"Spark's JVM ended with code {code}")
        try:
            stopped = jcontext.isStopped()
        except (Py4JError, OSError) as error:
            return self.mark_dead(f"Spark's JVM does not answer: {error}")
        return self.mark_dead("Spark's context has stopped") if stopped else True

    def mark_dead(self, reason: str) -> bool:
        if self.state == "up":
            self.state, self.reason = "dead", reason
        return False

    def _launch(self) -> None:
        for logger in ("root", "py4j.clientserver"):
            logging.getLogger(logger).addFilter(_quiet)
        java = find_java()
        home = Path(self.config.home).resolve()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        spark_home = _spark_home(home, self.config.master)
        # A local-cluster has a new folder for each home, so that its archive would never be used again.
        if not self.config.master.startswith("local-cluster"):
            self._archive = CdsArchive(java, spark_home, brief=self.config.brief)
        conf = SparkConf(loadDefaults=False)
        conf.setAll(list(self._settings(home).items()))
        environment = {
            "JAVA_HOME": str(java.home),
            "SPARK_HOME": str(spark_home),
            "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1",
        }
        if self.config.master.startswith("local"):
            environment["SPARK_LOCAL_IP"] = "127.0.0.1"  # the host name of a laptop or container may not resolve
        interrupt = signal.getsignal(signal.SIGINT)
        path = list(sys.path)
        with self.log.open("ab") as log, _environment(environment):
            self._gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
        with suppress(OSError):  # only a JVM that hangs needs it
            self._guard = guard.start(self._gateway.proc.pid)
        try:
            context = SparkContext(conf=conf, gateway=self._gateway)
            self._session = SparkSession(context)
            # Create its cache now; if a task created it, it would ignore the settings of the session.
            context._jvm.org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator.compileTime()
        finally:
            # PySpark handles Ctrl-C and changes sys.path; a server needs neither.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, interrupt)
            sys.path[:] = path
        self._jcontext = context._jsc.sc()

    def _settings(self, home: Path) -> dict[str, str]:
        master = self.config.master
        settings = dict(SETTINGS)
        settings["spark.master"] = master
        settings["spark.app.name"] = "tocsin"
        settings["spark.driver.memory"] = self.config.driver_memory
        settings[_SHUFFLE] = str(_partitions(master))
        settings["spark.sql.warehouse.dir"] = (home / "warehouse").as_uri()
        if master.startswith("local"):
            settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        shape = _LOCAL_CLUSTER.fullmatch(master)
        if shape:
            settings["spark.executor.memory"] = f"{shape[3]}m"  # smaller workers refuse the default
        settings.update(self.config.spark)
        settings.update(self._extra)
        options = [
            "-XX:+UseParallelGC",
            # An OutOfMemoryError ends threads of Spark, after which nothing would run.
            "-XX:+ExitOnOutOfMemoryError",
            "-Xlog:cds=error",
            f"-Dlog4j2.configurationFile={_log4j(self.log).as_uri()}",
            # Spark's classes and generated code need this much; a smaller start value causes garbage collections.
            "-XX:MetaspaceSize=256m",
        ]
        if self.config.brief:
            # Otherwise half of the CPU time of the first minutes goes into optimising code that runs a few times.
            options.append("-XX:TieredStopAtLevel=1")
        if self._archive is not None:
            options += self._archive.options()
        own = settings.get("spark.driver.extraJavaOptions", "")
        settings["spark.driver.extraJavaOptions"] = " ".join([*(f'"{option}"' for option in options), own]).strip()
        return settings

    def _abandon(self, wait: float = 0.0) -> None:
        """End the JVM and reset the class variables of PySpark."""
        gateway, context = self._gateway, SparkContext._active_spark_context
        if gateway is None:
            return  # this runtime has no JVM; PySpark's variables may belong to another one
        server = getattr(context, "_accumulatorServer", None)
        if context is not None and server is not None:
            server.shutdown()
            context._accumulatorServer = None
        _end(gateway, wait)
        if self._guard is not None:
            with self._guard:
                self._guard.kill()
            self._guard = None
        with SparkContext._lock:
            SparkContext._active_spark_context = None
            SparkContext._gateway = None
            SparkContext._jvm = None
            SparkSession._instantiatedSession = None
            SparkSession._activeSession = None
        if context is not None:
            context._jsc = None
        self._session = self._gateway = self._jcontext = None

    # --- jobs

    @contextmanager
    def query(self) -> Iterator[str]:
        """Run the jobs of a query or a change: in one of a few places, with a time limit."""
        if not self._places.acquire(timeout=QUEUE_SECONDS):
            raise Busy(f"{self.config.query_threads} queries are running", hint="try again in a minute")
        try:
            with self.pool("queries", "query", self.config.query_seconds) as group:
                yield group
        finally:
            self._places.release()

    @contextmanager
    def pool(self, name: str, kind: Kind = "other", seconds: float | None = None) -> Iterator[str]:
        """Run the jobs of this thread in the FAIR pool ``name``; yields the job group for ``cancel``.

        After ``seconds``, ``cancel_overdue`` cancels them.
        """
        context = self.session.sparkContext
        group = f"{name}-{next(self._groups)}"
        context.setLocalProperty("spark.scheduler.pool", name)
        context.setJobGroup(group, name, interruptOnCancel=True)
        try:
            with self._work.running(group, kind, time.monotonic(), seconds):
                yield group
        finally:
            if self.alive():
                context.setLocalProperty("spark.scheduler.pool", None)
                internals.clear_job_group(context, private_api=self.private_api)

    def cancel(self, group: str) -> None:
        """Cancel the running jobs of a group, if there are any."""
        self.session.sparkContext.cancelJobGroup(group)

    def cancel_overdue(self) -> None:
        """Cancel work that is past its deadline, whose client has gone, or that keeps channels from running."""
        for group in self._work.to_cancel(time.monotonic(), self._active_tasks):
            self.cancel(group)

    def _active_tasks(self, group: str) -> int | None:
        tracker = self.session.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
        stages = [
            tracker.getStageInfo(stage) for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds
        ]
        open_stages = [stage for stage in stages if stage and stage.numCompletedTasks < stage.numTasks]
        return sum(stage.numActiveTasks for stage in open_stages) if open_stages else None

    def progress(self, group: str) -> float:
        """The finished fraction of the tasks of a group's jobs."""
        tracker = self.session.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        total = sum(stage.numTasks for stage in stages if stage)
        return sum(stage.numCompletedTasks for stage in stages if stage) / total if total else 0.0

    def to_arrow(self, df: DataFrame) -> pa.Table:
        return df.toArrow()

    def from_arrow(self, table: pa.Table) -> DataFrame:
        """A DataFrame whose rows are part of the plan, so that reading it needs no job."""
        return internals.from_arrow(self.session, table, private_api=self.private_api)

    def drop_view(self, name: str) -> None:
        internals.drop_view(self.session, name, private_api=self.private_api)


def _partitions(master: str) -> int:
    """Shuffle partitions: two per core in a cluster, one per core in local mode, at least two."""
    match = _LOCAL_CLUSTER.fullmatch(master)
    if match:
        return max(2, 2 * int(match[1]) * int(match[2]))
    match = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,.*)?\])?", master)
    cores = os.cpu_count() or 1
    if match:
        return max(2, cores if match[1] == "*" else int(match[1] or 1))
    return max(2, 2 * cores)


def _spark_home(home: Path, master: str) -> Path:
    """PySpark's folder; for local-cluster a folder with links to it, because workers write into SPARK_HOME."""
    real = Path(_find_spark_home())
    if not master.startswith("local-cluster"):
        return real
    own = home / "spark-home"
    own.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        with suppress(FileExistsError):
            (own / name).symlink_to(real / name)
    shutil.rmtree(own / "work", ignore_errors=True)  # left by executors of earlier runs
    return own


_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


def _log4j(log: Path) -> Path:
    """The logging configuration is a file, because Spark prints warnings before it reads other settings."""
    path = log.parent / "log4j2.properties"
    text = _LOG4J.format(log=log)
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
    return path


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """PySpark passes the process environment to the JVM, so it is changed during the launch."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _end(gateway: Any, wait: float) -> None:
    """Close the standard input of the JVM, which ends it; kill it if it does not end in time."""
    process = gateway.proc
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # Only now, because closing a connection that another thread reads would block forever.
    with suppress(Py4JError, OSError):
        gateway.shutdown_callback_server()
    with suppress(Py4JError, OSError):
        gateway.close()


def _last_words(log: Path, start: int) -> str:
    """The first lines in the log after ``start`` that are neither a warning nor part of a stack trace."""
    try:
        text = log.read_bytes()[start:].decode(errors="replace")
    except OSError:
        return ""
    idle = ("at ", "...", "WARNING", "Using ", "Setting ", "To adjust ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(idle)]
    return " ".join(lines[:3])[:500] or "its JVM ended immediately"


def first_line(error: BaseException) -> str:
    """The message of an error without a stack trace; for a Java exception, the message of that exception."""
    return causes(error)[0]


def causes(error: BaseException) -> list[str]:
    """The first lines of an error and of its causes, in Python or Java, without Spark's wrappers."""
    messages: list[str] = []
    java, cause = getattr(error, "java_exception", None), cast(Any, error)
    if java is None:
        while cause is not None:
            messages.append(str(cause))
            cause = getattr(cause, "_cause", None)
    try:
        while java is not None:
            messages.append(str(java.getMessage() or java.toString()))
            java = java.getCause()
    except (Py4JError, OSError):
        messages.append("Spark's JVM has died")  # its exception is lost with it
    lines = [text.strip().splitlines()[0] for text in messages if text.strip()]
    useful = [
        line for line in lines if not line.startswith(("Exception thrown in awaitResult", "An error occurred while"))
    ]
    return list(dict.fromkeys(useful or lines)) or [type(error).__name__]


def _quiet(record: logging.LogRecord) -> bool:
    """Hide stack traces that Py4J logs when the JVM dies or a batch of a feed fails; Tocsin logs the error."""
    return not str(record.msg).startswith(("Exception while sending command", "There was an exception while executing"))
