"""Where what was compiled or downloaded is kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def folder(name: str) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    made = base / "tocsin-benchmarks" / name
    made.mkdir(parents=True, exist_ok=True)
    return made
