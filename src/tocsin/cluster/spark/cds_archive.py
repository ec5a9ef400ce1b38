"""A class-data-sharing archive of Spark's classes. One session writes it; later sessions start seconds faster, and
their first queries are faster too."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from tocsin.cluster.spark.java import Java, cache_dir, sweep

#: If a session loads this many times the classes of its archive, the next session writes a better archive.
RICHER = 1.2
#: This many sessions try to write a better archive, because a session may end before it has loaded much.
TRIES = 3


class CdsArchive:
    """An existing archive is used; otherwise the JVM writes a draft when it ends, and ``store`` renames the draft.

    A JVM cannot use an archive and write a better one at the same time. So a session that loaded many more classes
    asks the next sessions to run without an archive and to write one, which then replaces the old one. ``brief``
    sessions are too short for that to pay: they write an archive only if there is none.
    """

    def __init__(self, java: Java, spark_home: Path, folder: Path | None = None, *, brief: bool = False) -> None:
        self._folder = cache_dir() if folder is None else folder
        self._brief = brief
        # The JVM checks class path and version itself, and ignores an archive that does not match.
        release = java.home / "release"
        jars = spark_home / "jars"
        parts = (
            str(java.home),
            java.version,
            release.stat().st_mtime_ns if release.exists() else 0,
            str(jars),
            jars.stat().st_mtime_ns,
        )
        self._name = f"spark-{sha256(repr(parts).encode()).hexdigest()[:16]}"
        self._draft = self._folder / f"{self._name}.{os.getpid()}.draft"
        self._wanted = self._folder / f"{self._name}.wanted"
        self._used: Path | None = None
        self._writes = False

    @property
    def path(self) -> Path | None:
        """The archive with the most classes; their number is part of its name."""
        return max(self._folder.glob(f"{self._name}-*.jsa"), key=_classes, default=None)

    def options(self) -> list[str]:
        """The options of the JVM. If the folder cannot be written, there is no archive."""
        # An archive takes 150 MB, so delete those of a Java or Spark that is no longer used.
        for pattern, days in (("spark-*.draft", 1), ("spark-*.wanted", 30), ("spark-*.jsa", 30)):
            sweep(self._folder, pattern, days)
        self._used = self.path
        if self._used is not None:
            with suppress(OSError):
                os.utime(self._used)
            if self._brief or self._tries() <= 0:
                return [f"-XX:SharedArchiveFile={self._used}", "-Xshare:auto"]
        self._writes = os.access(self._folder, os.W_OK)
        return [f"-XX:ArchiveClassesAtExit={self._draft}"] if self._writes else []

    def store(self, classes: int) -> None:
        """Call it when the JVM has ended; ``classes`` is the number of classes it had loaded, 0 if unknown."""
        with suppress(OSError):
            if self._writes:
                self._take(classes)
            elif not self._brief and self._used is not None and classes > RICHER * _classes(self._used):
                # The archive comes from a session that ended early.
                self._wanted.write_text(str(TRIES))

    def _take(self, classes: int) -> None:
        """The draft becomes the archive if it has more classes than the current one."""
        if not self._draft.stat().st_size:
            return
        left = self._tries() - 1
        if self._used is None or classes > _classes(self._used):
            self._draft.replace(self._folder / f"{self._name}-{classes}.jsa")
            if self._used is not None:
                self._used.unlink(missing_ok=True)
            left = 0
        else:
            self._draft.unlink()
        if left > 0:
            self._wanted.write_text(str(left))
        else:
            self._wanted.unlink(missing_ok=True)

    def _tries(self) -> int:
        """How many more sessions may try to write a better archive."""
        try:
            return int(self._wanted.read_text())
        except (OSError, ValueError):
            return 0


def _classes(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
