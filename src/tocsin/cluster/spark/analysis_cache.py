"""A cache of Spark's analysis of queries: a query that was checked once needs no Spark to be checked again.

It is stored for the user, beside the class archive. So an application that was created before is created again without
waiting for Spark: at the second start of a demo, in a new folder, or after a restore.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from importlib import resources
from pathlib import Path

import msgspec
import pyspark

from tocsin.cluster.model import Column
from tocsin.cluster.spark.java import cache_dir, sweep

#: A larger file is emptied; this is enough for some ten thousand queries.
MOST_BYTES = 4_000_000
#: The modules that decide whether a query is safe: a change in them makes older entries invalid.
RULES = (
    "query/allow_list.py", "query/safety.py", "spark/plan_check.py", "spark/plan_inspector.py", "spark/plan_text.py",
)  # fmt: skip

_Line = tuple[str, tuple[Column, ...]]


class AnalysisCache:
    """``settings`` are those of Spark: the meaning of a query may depend on the dialect or the time zone.

    The file has one line for each query, appended in one write; damaged lines are ignored.
    """

    def __init__(self, settings: Mapping[str, str], folder: Path | None = None) -> None:
        folder = cache_dir() if folder is None else folder
        code = [resources.files("tocsin.cluster").joinpath(name).read_text(encoding="utf-8") for name in RULES]
        origin = msgspec.json.encode([pyspark.__version__, sorted(settings.items()), code])
        self.path = folder / f"analysis-{sha256(origin).hexdigest()[:16]}.ndjson"
        self._lock = threading.Lock()

    def find(self, words: bytes) -> tuple[Column, ...] | None:
        """The columns of a query that Spark has accepted; None: Spark must analyse it."""
        with self._lock:
            return self._known.get(_digest(words))

    def store(self, words: bytes, columns: tuple[Column, ...]) -> None:
        """If the file cannot be written, the entry lasts until the process ends."""
        line: _Line = (_digest(words), columns)
        with self._lock:
            self._known[line[0]] = columns
            with suppress(OSError), self.path.open("ab") as file:
                if file.tell() > MOST_BYTES:
                    file.truncate(0)
                # Starts a new line, in case the last one is incomplete.
                file.write(b"\n" + msgspec.json.encode(line) + b"\n")

    @cached_property
    def _known(self) -> dict[str, tuple[Column, ...]]:
        known = {}
        with suppress(OSError):
            os.utime(self.path)
            for line in self.path.read_bytes().splitlines():
                with suppress(msgspec.DecodeError):  # also raised for JSON of another shape
                    digest, columns = msgspec.json.decode(line, type=_Line)
                    known[digest] = columns
        # Delete the files of other versions and settings.
        sweep(self.path.parent, "analysis-*.ndjson", 30)
        return known


def _digest(words: bytes) -> str:
    return sha256(words).hexdigest()
