"""A class-data-sharing archive of Spark's classes, made once: it takes seconds off every later start."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from tocsin.cluster.java import Java, cache_dir


class Archive:
    """Used when it is there; else the JVM writes a draft when it ends, and ``keep`` gives the draft its name."""

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
        self.path = self._folder / f"spark-{sha256(repr(parts).encode()).hexdigest()[:16]}.jsa"
        self._draft = self.path.with_suffix(f".{os.getpid()}.draft")

    def options(self) -> list[str]:
        """Options of the JVM. Without a place to write to there is no archive, and nothing else is lost."""
        self._sweep()
        if self.path.is_file():
            with suppress(OSError):
                os.utime(self.path)
            return [f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto"]
        if not os.access(self._folder, os.W_OK):
            return []
        return [f"-XX:ArchiveClassesAtExit={self._draft}"]

    def keep(self) -> None:
        """After the JVM has ended."""
        with suppress(OSError):
            if self._draft.stat().st_size:
                self._draft.replace(self.path)

    def _sweep(self) -> None:
        """An archive takes 150 MB: those of a Java or Spark that is no longer used go away after a month."""
        for pattern, days in (("spark-*.draft", 1), ("spark-*.jsa", 30)):
            for path in self._folder.glob(pattern):
                with suppress(OSError):
                    if path.stat().st_mtime < time.time() - days * 86_400:
                        path.unlink()
