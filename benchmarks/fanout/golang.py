"""The current server of NATS, built by Go from its module proxy, which is checked against the public sums."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from benchmarks import harness
from benchmarks.fanout import cache as kept
from benchmarks.fanout.debian import Binary, binary

MODULE, VERSION = "github.com/nats-io/nats-server/v2", "v2.15.2"


@cache
def nats_server() -> Binary:
    """Without Go, or where it cannot build this version, Debian's, which is older. Building takes a minute, once."""
    go = shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/go/bin"]))
    if go is None:
        return binary("nats-server")
    found = kept.folder("go") / f"nats-server-{VERSION}"
    if not found.exists():
        with tempfile.TemporaryDirectory(dir=found.parent) as folder:
            command = [go, "install", f"{MODULE}@{VERSION}"]
            settings = os.environ | {"GOBIN": folder, "CGO_ENABLED": "0"}
            done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)
            if done.returncode:
                harness.progress(f"NATS {VERSION} was not built, so Debian's is measured: {done.stderr[-500:]}")
                return binary("nats-server")
            (Path(folder) / "nats-server").rename(found)
    return Binary(str(found))


def syncs_always(version: str) -> bool:
    """Whether JetStream of this version can sync every message to disk before it is delivered: from 2.10 on."""
    return tuple(int(word) for word in version.split(".")[:2]) >= (2, 10)
