"""What Spark has found good before: the same query over the same columns is good again, and known before Spark is up.

Kept for this user beside the archive of classes, so that an application is made as quickly as its definitions can be
written down when it has been made before: on the second start of a demo, in a new folder, after every restore.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib import resources
from pathlib import Path

import msgspec
import pyspark

from tocsin.cluster.model import Column
from tocsin.cluster.spark.java import cache_dir, sweep

#: A file with more than this is begun anew: some ten thousand queries.
MOST_BYTES = 4_000_000
#: What says whether a query is safe: a change in it makes all that was said before worthless.
RULES = ("safety.py", "plan_inspector.py")

_Line = tuple[str, tuple[Column, ...]]


class AnalysisCache:
    """``settings`` are Spark's: another dialect or time zone may see another query in the same words.

    A line a verdict, appended in one write by whoever asked Spark; a line that is torn or foreign counts for nothing.
    """

    def __init__(self, settings: Mapping[str, str], folder: Path | None = None) -> None:
        folder = cache_dir() if folder is None else folder
        code = [resources.files("tocsin.cluster.query").joinpath(name).read_text(encoding="utf-8") for name in RULES]
        origin = msgspec.json.encode([pyspark.__version__, sorted(settings.items()), code])
        self.path = folder / f"verdicts-{sha256(origin).hexdigest()[:16]}.ndjson"
        self._known: dict[str, tuple[Column, ...]] | None = None
        self._lock = threading.Lock()

    def find(self, words: bytes) -> tuple[Column, ...] | None:
        """The columns of a query that was found good; None: Spark has to be asked."""
        with self._lock:
            if self._known is None:
                self._known = self._read()
            return self._known.get(_digest(words))

    def keep(self, words: bytes, columns: tuple[Column, ...]) -> None:
        """Without a place to write to it is known until the process ends, and nothing else is lost."""
        line: _Line = (_digest(words), columns)
        with self._lock:
            if self._known is None:
                self._known = self._read()
            self._known[line[0]] = columns
            with suppress(OSError), self.path.open("ab") as file:
                if file.tell() > MOST_BYTES:
                    file.truncate(0)
                # A torn line before it ends here.
                file.write(b"\n" + msgspec.json.encode(line) + b"\n")

    def _read(self) -> dict[str, tuple[Column, ...]]:
        known = {}
        with suppress(OSError):
            os.utime(self.path)
            for line in self.path.read_bytes().splitlines():
                with suppress(msgspec.DecodeError):  # also of what is not JSON, or of another shape
                    digest, columns = msgspec.json.decode(line, type=_Line)
                    known[digest] = columns
        # Those of other versions and settings.
        sweep(self.path.parent, "verdicts-*.ndjson", 30)
        return known


def _digest(words: bytes) -> str:
    return sha256(words).hexdigest()
