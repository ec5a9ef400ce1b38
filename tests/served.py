"""A real data cluster in its own process, started with the command line."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from tocsin.cli.main import run

SOURCE = Path(__file__).parent.parent / "src"


def environment(**more: str) -> dict[str, str]:
    """This environment without the machine's Tocsin settings and without colours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    return kept | {"PYTHONPATH": str(SOURCE), "NO_COLOR": "1", "TERM": "dumb"} | more


class Ran(NamedTuple):
    returncode: int
    stdout: bytes
    stderr: bytes


def tocsin(*words: str, data: bytes = b"", **env: str) -> Ran:
    """Runs ``tocsin`` with these arguments in this process, which is faster than a new Python process."""
    streams = [io.TextIOWrapper(io.BytesIO(start), "utf-8", write_through=True) for start in (data, b"", b"")]
    with patch.dict(os.environ, environment(**env), clear=True):
        before = sys.stdin, sys.stdout, sys.stderr
        sys.stdin, sys.stdout, sys.stderr = streams
        try:
            run(words)
        except SystemExit as end:
            code = end.code
        finally:
            sys.stdin, sys.stdout, sys.stderr = before
    assert isinstance(code, int)
    out, err = (stream.detach().getvalue() for stream in streams[1:])
    return Ran(code, out, err)


class Process:
    """A running ``tocsin cluster``, or another part."""

    def __init__(self, *options: str, part: str = "cluster", **env: str) -> None:
        command = [sys.executable, "-m", "tocsin.cli", part, "--json", "--port", "0", *options]
        settings = environment(TOCSIN_BRIEF="true", **env)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=settings)

    def event(self, name: str) -> dict[str, Any]:
        """Waits for this event of the process."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == name:
                return event
        raise AssertionError(f"it ended before {name}: {self.errors()}")

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(180)


@contextmanager
def served(home: Path, *options: str) -> Iterator[str]:
    """Yields the address of a data cluster that can run queries, and load what is in the folder around its home."""
    readable = json.dumps([str(home.parent)])
    running = Process("--home", str(home), "--master", "local[2]", *options, TOCSIN_LOAD_PATHS=readable)
    try:
        yield running.event("ready")["url"]
    finally:
        code = running.end()
    assert code == 0, running.errors()
