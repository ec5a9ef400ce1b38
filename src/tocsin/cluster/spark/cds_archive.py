"""A class-data-sharing archive of Spark's classes, made by one session for those that follow: it takes seconds off
their start and off their first queries."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from tocsin.cluster.spark.java import Java, cache_dir, sweep

#: A session that needed so many times the classes of its archive has the next one make a better archive.
RICHER = 1.2
#: So many sessions in turn, if need be: nobody knows beforehand which of them will do much.
TRIES = 3


class CdsArchive:
    """Used when it is there; else the JVM writes a draft when it ends, and ``keep`` gives the draft its name.

    A JVM cannot both use one and write a better one. So a session that could have used more asks those that follow to
    do without and to write one; the old one goes when a better one is there.
    """

    def __init__(self, java: Java, spark_home: Path, folder: Path | None = None) -> None:
        self._folder = cache_dir() if folder is None else folder
        # The JVM itself checks class path and version again and ignores an archive that does not fit.
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
        """The one with the most classes, whose number is part of the name."""
        return max(self._folder.glob(f"{self._name}-*.jsa"), key=_classes, default=None)

    def options(self) -> list[str]:
        """Options of the JVM. Without a place to write to there is no archive, and nothing else is lost."""
        # An archive takes 150 MB: those of a Java or Spark that is no longer used go away.
        for pattern, days in (("spark-*.draft", 1), ("spark-*.wanted", 30), ("spark-*.jsa", 30)):
            sweep(self._folder, pattern, days)
        self._used = self.path
        if self._used is not None:
            with suppress(OSError):
                os.utime(self._used)
            if self._tries() <= 0:
                return [f"-XX:SharedArchiveFile={self._used}", "-Xshare:auto"]
        self._writes = os.access(self._folder, os.W_OK)
        return [f"-XX:ArchiveClassesAtExit={self._draft}"] if self._writes else []

    def keep(self, classes: int) -> None:
        """After the JVM has ended, which had loaded so many classes (0: nobody knows)."""
        with suppress(OSError):
            if self._writes:
                self._take(classes)
            elif self._used is not None and classes > RICHER * _classes(self._used):
                # Made by one that ended before it had done much.
                self._wanted.write_text(str(TRIES))

    def _take(self, classes: int) -> None:
        """The draft becomes the archive, unless this session has done less than the one of the present archive."""
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
        """How many sessions may still try to make a better one."""
        try:
            return int(self._wanted.read_text())
        except (OSError, ValueError):
            return 0


def _classes(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
