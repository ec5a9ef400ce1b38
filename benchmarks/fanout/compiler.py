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


def program(name: str) -> Path:
    """The executable of ``NAME.c``; compiled again only when the source has changed."""
    source = (HERE / f"{name}.c").read_bytes()
    made = cache.folder("programs") / f"{name}-{hashlib.sha256(source).hexdigest()[:16]}"
    if not made.exists():
        # Others may compile at the same time: only a whole program gets the name.
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            compiled = compile_to(name, Path(folder))
            compiled.replace(made)
    return made


def compile_to(name: str, folder: Path, flags: Sequence[str] = FLAGS) -> Path:
    compiler = os.environ.get("CC") or shutil.which("cc")
    if not compiler:
        raise RuntimeError("the fan-out benchmark needs a C compiler: run `apt-get install gcc libc6-dev` as root")
    made = folder / name
    done = subprocess.run(
        [compiler, *flags, "-o", str(made), str(HERE / f"{name}.c")], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}.c does not compile:\n{done.stderr}")
    return made
