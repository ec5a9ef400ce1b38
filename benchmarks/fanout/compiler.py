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


def program(name: str, more: Sequence[str] = (), folder: Path = HERE) -> Path:
    """The executable of ``NAME.c``; compiled again only when a source has changed. ``more``: flags."""
    sources = b"".join(path.read_bytes() for path in (folder / f"{name}.c", *sorted(folder.glob("*.h"))))
    made = cache.folder("programs") / f"{name}-{hashlib.sha256(sources + repr(more).encode()).hexdigest()[:16]}"
    if not made.exists():
        # Others may compile at the same time: only a whole program gets the name.
        with tempfile.TemporaryDirectory(dir=made.parent) as target:
            compiled = compile_to(name, Path(target), [*FLAGS, *more], folder)
            compiled.replace(made)
    return made


def compile_to(name: str, target: Path, flags: Sequence[str] = FLAGS, folder: Path = HERE) -> Path:
    compiler = os.environ.get("CC") or shutil.which("cc")
    if not compiler:
        raise RuntimeError("this benchmark needs a C compiler: run `apt-get install gcc libc6-dev` as root")
    made = target / name
    done = subprocess.run(
        [compiler, "-o", str(made), str(folder / f"{name}.c"), *flags], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}.c does not compile:\n{done.stderr}")
    return made
