"""Real Spark processes for tests: a standalone master with a worker, and Python children that own a session."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyspark

import tocsin
from tocsin.cluster.spark.java import find_java

SPARK_HOME = Path(pyspark.__file__).parent
SRC = Path(tocsin.__file__).parent.parent
TESTS = Path(__file__).parent
#: Settings of a data cluster for tests: without them, half of the CPU time goes into optimizing code that runs once.
SHORT_LIVED: dict[str, Any] = {
    "brief": True,
    "spark": {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"},
}


def child_env(**extra: str) -> dict[str, str]:
    """This environment, with ``tocsin`` and the test helpers importable and PySpark's own variables left out."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    env["PYTHONPATH"] = os.pathsep.join([str(SRC), str(TESTS), env.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return env | extra


def start_child(script: str, *args: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Starts Python source in a child process, for a test that needs its own Spark session or kills it.

    The child's standard input is open: a child that reads it ends with the test.
    """
    return subprocess.Popen(
        [sys.executable, "-c", script, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(child_env() if env is None else env),
    )


def run_in_child(script: str, *args: str, env: Mapping[str, str] | None = None, timeout: float = 500) -> str:
    """Returns the output of the child, and shows it if the child fails."""
    child = start_child(script, *args, env=env)
    try:
        out, _ = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        out, _ = child.communicate()
        raise AssertionError(f"the child did not end in {timeout:g} s:\n{out}") from None
    assert child.returncode == 0, f"the child ended with {child.returncode}:\n{out}"
    return out


def read_until(stream: IO[str], pattern: str) -> re.Match[str]:
    """Waits for a line with ``pattern``; fails with everything that was read when the stream ends before."""
    seen = []
    for line in stream:
        seen.append(line)
        found = re.search(pattern, line)
        if found:
            return found
    raise AssertionError(f"nothing matched {pattern!r} in:\n{''.join(seen)}")


@contextmanager
def standalone(folder: Path, cores: int = 2, memory: str = "1g") -> Iterator[str]:
    """A standalone master and one worker on free loopback ports; yields the ``spark://`` address."""
    java = find_java()
    env = child_env(
        JAVA_HOME=str(java.home),
        SPARK_HOME=str(SPARK_HOME),
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_DAEMON_MEMORY="256m",
        SPARK_DAEMON_JAVA_OPTS="-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        SPARK_LOCAL_DIRS=str(folder / "local"),
    )
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    logging = folder / "log4j2.properties"
    folder.mkdir(parents=True, exist_ok=True)
    logging.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.console.ref = console\nappender.console.type = Console\n"
        "appender.console.name = console\nappender.console.target = SYSTEM_ERR\n"
        "appender.console.layout.type = PatternLayout\nappender.console.layout.pattern = %p %c{1}: %m%n%ex\n"
    )
    env["SPARK_DAEMON_JAVA_OPTS"] += f" -Dlog4j2.configurationFile={logging.as_uri()}"
    running: list[subprocess.Popen[str]] = []

    def daemon(name: str, ready: str, *args: str) -> re.Match[str]:
        command = [spark_class, f"org.apache.spark.deploy.{name.lower()}.{name}", "--host", "127.0.0.1", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--webui-port", "0", *args],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=folder,
        )
        running.append(process)
        assert process.stdout is not None
        found = read_until(process.stdout, ready)
        threading.Thread(target=_keep, args=(process.stdout, folder / f"{name}.log"), daemon=True).start()
        return found

    try:
        address = daemon("Master", r"Starting Spark master at (spark://\S+)")[1]
        options = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work"))
        daemon("Worker", "Successfully registered with master", *options, address)
        yield address
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _keep(stream: IO[str], log: Path) -> None:
    """Keeps reading, so that the output of the process does not block it."""
    with stream, log.open("w") as out:
        out.writelines(stream)
