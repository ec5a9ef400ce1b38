"""Processes that keep to a core and do not outlive the benchmark."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from benchmarks import peers

_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, COUNTER_CORE = _CORES[0], _CORES[-1]


def bound(command: Sequence[str], core: int | None) -> list[str]:
    """The command on one core, killed by the kernel if this process ends first, however it ends."""
    pinned = ["taskset", "--cpu-list", str(core)] if core is not None else []
    return ["setpriv", "--pdeathsig", "KILL", *pinned, *command]


def end(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def allow_files() -> None:
    """As many open files as the machine grants; what is started from here inherits it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def resident(pid: int) -> int:
    """Bytes of memory of the process and its descendants."""
    pages = sum(int(Path(f"/proc/{member}/statm").read_text().split()[1]) for member in peers.family(pid))
    return pages * os.sysconf("SC_PAGE_SIZE")


def connection() -> tuple[BinaryIO, BinaryIO]:
    """A TCP connection: the end to write to, and that to read from."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return near.makefile("wb", 0), far.makefile("rb", 0)


def free_ports(count: int) -> list[int]:
    """Ports that are free now, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
