"""The peers of the tables, from Debian's packages: private, on loopback, in temporary folders, gone at the end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from tests.postgres import Server

#: Reasonable settings for a machine of this size.
POSTGRES = {"shared_buffers": "1GB", "work_mem": "256MB", "max_connections": "100", "max_wal_size": "4GB"}
POSTGRES_NOTE = (
    "PostgreSQL: shared_buffers 1GB, work_mem 256MB, max_wal_size 4GB, fsync and synchronous_commit on, "
    "everything else as it comes"
)
REDIS_NOTE = "Redis: appendonly, appendfsync always, no snapshots; XADD of one field with the JSON text"


@dataclass(frozen=True)
class Peer:
    """A running server and where it listens."""

    pid: int
    port: int
    url: str
    version: str


@contextmanager
def postgres(settings: dict[str, str] | None = None) -> Iterator[Peer]:
    with Server({**POSTGRES, **(settings or {})}) as server:
        assert server._process is not None
        with psycopg.connect(server.url) as connection:
            version = ".".join(str(connection.info.server_version // 100 ** (2 - n) % 100) for n in (0, 2))
            port = connection.info.port
        yield Peer(server._process.pid, port, f"{server.url}?sslmode=disable", f"PostgreSQL {version}")


@contextmanager
def redis() -> Iterator[Peer]:
    binary = _redis()
    folder = Path(tempfile.mkdtemp(prefix="tocsin-redis-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"bind": "127.0.0.1", "dir": str(folder), "appendonly": "yes", "appendfsync": "always", "save": ""}
    command = [binary, "--port", str(port)]
    for name, value in settings.items():
        command += [f"--{name}", value]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _answering(port, process)
        output = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
        version = next(word[2:] for word in output.split() if word.startswith("v="))
        yield Peer(process.pid, port, f"redis://127.0.0.1:{port}", f"Redis {version}")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _redis() -> str:
    if found := shutil.which("redis-server"):
        return found
    if os.geteuid() != 0:
        raise RuntimeError("Redis is not installed: run `apt-get install redis-server` as root")
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "redis-server"]):
        subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    return shutil.which("redis-server") or "/usr/bin/redis-server"


def _answering(port: int, process: subprocess.Popen[Any], timeout: float = 30.0) -> None:
    end = time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), 1.0) as connection:
                connection.sendall(b"*1\r\n$4\r\nPING\r\n")
                if connection.recv(64).startswith(b"+PONG"):
                    return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("Redis did not start")


# -- processes ---------------------------------------------------------------------------------------------------------


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    found, at = [pid], 0
    while at < len(found):
        for task in Path(f"/proc/{found[at]}/task").glob("*/children"):
            try:
                found += [int(word) for word in task.read_text().split()]
            except OSError:  # a thread that has just ended
                continue
        at += 1
    return found


def family_cpu(pid: int) -> float:
    """CPU seconds of the process, its descendants, and those of them that ended and were waited for."""
    total = 0
    for member in family(pid):
        try:
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def pin(pid: int, cores: Sequence[int]) -> None:
    """Keeps a process, its threads and its descendants on these cores; what they start later inherits it."""
    for member in family(pid):
        for task in Path(f"/proc/{member}/task").iterdir():
            try:
                os.sched_setaffinity(int(task.name), cores)
            except ProcessLookupError:
                continue
