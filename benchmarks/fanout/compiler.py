"""The C programs beside this file, compiled when they are first needed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fanout import cache

HERE = Path(__file__).parent
FLAGS = ("-O2", "-Wall", "-Wextra")
#: For a program with TLS.
TLS = ("-DTLS", "-lssl", "-lcrypto")


def program(name: str, more: Sequence[str] = ()) -> Path:
    """The executable of ``NAME.c``; compiled again only when a source has changed. ``more``: flags."""
    sources = b"".join(path.read_bytes() for path in (HERE / f"{name}.c", *sorted(HERE.glob("*.h"))))
    made = cache.folder("programs") / f"{name}-{hashlib.sha256(sources + repr(more).encode()).hexdigest()[:16]}"
    if not made.exists():
        # Others may compile at the same time: only a whole program gets the name.
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            compiled = compile_to(name, Path(folder), [*FLAGS, *more])
            compiled.replace(made)
    return made


def compile_to(name: str, folder: Path, flags: Sequence[str] = FLAGS) -> Path:
    compiler = os.environ.get("CC") or shutil.which("cc")
    if not compiler:
        raise RuntimeError("the fan-out benchmark needs a C compiler: run `apt-get install gcc libc6-dev` as root")
    made = folder / name
    done = subprocess.run(
        [compiler, "-o", str(made), str(HERE / f"{name}.c"), *flags], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}.c does not compile:\n{done.stderr}")
    return made
