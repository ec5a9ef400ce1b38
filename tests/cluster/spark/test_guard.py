"""A JVM that hangs ends with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventually import eventually
from served import environment
from tocsin.cluster.spark import guard


@pytest.fixture
def hanging() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "3600"], stdin=subprocess.PIPE) as found:
        found.send_signal(signal.SIGSTOP)
        yield found
        found.kill()


def test_a_process_that_hangs_is_killed_when_the_parent_has_ended(hanging: subprocess.Popen[bytes]) -> None:
    found = guard.start(hanging.pid, 0.1)
    assert found is not None and found.stdin is not None
    assert hanging.poll() is None
    found.stdin.close()  # as the end of this process would
    assert hanging.wait(120) == -signal.SIGKILL and found.wait(120) == 0


def test_a_process_that_ends_by_itself_is_not_killed() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        found = guard.start(process.pid, 3600.0)
        assert found is not None and found.stdin is not None and process.stdin is not None
        found.stdin.close()
        process.stdin.close()
        assert process.wait(120) == 0 and found.wait(120) == 0


def test_the_guard_ends_with_the_process(hanging: subprocess.Popen[bytes]) -> None:
    found = guard.start(hanging.pid)
    assert found is not None
    with found:
        hanging.kill()
        hanging.wait(120)
        assert found.wait(120) == 0


PARENT = """
import sys, time
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.config import ClusterConfig
runtime = SparkRuntime(ClusterConfig(home=sys.argv[1], master="local[1]", brief=True))
runtime.start()
print(runtime.pid, flush=True)
time.sleep(3600)
"""


@pytest.mark.slow
def test_a_jvm_that_hangs_does_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as parent:
        assert parent.stdout is not None
        jvm = int(parent.stdout.readline())
        os.kill(jvm, signal.SIGSTOP)
        parent.kill()
    eventually(lambda: Path(f"/proc/{jvm}").exists(), lambda there: not there)
