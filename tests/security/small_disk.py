"""A disk of a few megabytes that a test can fill: a tmpfs, which only root may mount."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType

#: Bytes that are written at once to fill it.
PIECE = 1024 * 1024


class SmallDisk:
    """``with SmallDisk(folder, 256) as disk``. Without the right to mount, the folder stays an ordinary one: ``real``
    is False, and it cannot be filled."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tocsin-test", str(folder)]
        self.real = os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """To the last byte."""
        assert self.real
        with self._ballast.open("ab", buffering=0) as file:
            for size in (PIECE, 4096, 1):
                with suppress(OSError):
                    while file.write(b"\0" * size) == size:
                        pass

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        if self.real:
            # Lazily: a process that was killed a moment ago may still have files open.
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True, capture_output=True)
            with suppress(OSError):
                self.folder.rmdir()

    def __enter__(self) -> SmallDisk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
