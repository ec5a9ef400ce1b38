"""Checks before anything is started, so that problems are reported at once and in plain words."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from tocsin.cluster.spark.java import find_java
from tocsin.errors import SystemFailure, UserError
from tocsin.http.server import bind

#: Bytes beside Spark's heap: its JVM's own, and the data cluster's process.
BESIDE_HEAP = 700 * 2**20
#: Bytes of the coordinator, and of each broker.
EACH = 90 * 2**20

_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def check_java() -> str:
    """The Java that Spark will run on."""
    java = find_java()
    return f"Java {java.version} from {java.origin}"


def check_memory(heap: str, brokers: int, meminfo: str | None = None) -> None:
    """Raises if less is available than Spark and the other processes use when they are busy."""
    available = available_bytes(meminfo)
    needed = as_bytes(heap) + BESIDE_HEAP + EACH * (brokers + 1)
    if available is not None and available < needed:
        raise SystemFailure(
            f"too little memory: {gigabytes(available)} are available, {gigabytes(needed)} are needed "
            f"({heap} of it for Spark's heap)",
            hint="end other programs, or give Spark less: TOCSIN_DRIVER_MEMORY=1g",
        )


def available_bytes(meminfo: str | None = None) -> int | None:
    """What is available without swapping, within the limit of a container; None if it is not known."""
    try:
        text = Path("/proc/meminfo").read_text() if meminfo is None else meminfo
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    available = int(found[1]) * 1024 if found else None
    if meminfo is not None:
        return available
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        left = limit - int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):  # ValueError: "max"
        return available
    return left if available is None else min(left, available)


def as_bytes(size: str) -> int:
    """As Spark writes sizes: 512m, 2g."""
    found = re.fullmatch(r"\s*(\d+)\s*([bkmgt]?)b?\s*", size.lower())
    if found is None:
        raise UserError(f"{size!r} is not an amount of memory", hint="write it like 2g or 512m")
    return int(found[1]) * _UNITS[found[2]]


def gigabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GB"


def check_ports(host: str, ports: Iterable[int]) -> None:
    for port in ports:
        if not 0 < port < 65536:
            raise UserError(f"there is no port {port}", hint="choose a lower --port")
        bind(host, port, listen=False).close()


def lock(home: Path) -> IO[str]:
    """Makes the folder and locks it for as long as the file is open: two deployments cannot share one."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        file = (home / "lock").open("a+")
    except OSError as error:
        raise UserError(f"cannot write to {home}: {error.strerror or error}", hint="choose another --home") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        owner = file.read().strip()
        file.close()
        raise UserError(
            f"{home} is in use" + (f" by process {owner}" if owner.isdigit() else ""),
            hint="stop the other `tocsin up`, or choose another --home",
        ) from error
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
