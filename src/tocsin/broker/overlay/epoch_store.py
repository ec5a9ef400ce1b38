"""The epoch of a broker's run: higher than that of every earlier run under its name."""

from __future__ import annotations

import os
from pathlib import Path

from tocsin.errors import StorageError


def next_epoch(file: Path, clock: float) -> int:
    """Kept on disk before it is used. At least the time in seconds: a broker that has lost its home grows on too."""
    try:
        before = int(file.read_text() or 0)
    except FileNotFoundError:
        before = 0
    except (OSError, ValueError) as error:
        hint = "delete the file; the epoch then follows from the clock"
        raise StorageError(f"the epoch of this broker in {file} cannot be read: {error}", hint=hint) from error
    epoch = max(before + 1, int(clock))
    draft = file.with_suffix(".epoch.new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as output:
            output.write(str(epoch))
            output.flush()
            os.fsync(output.fileno())
        draft.replace(file)
    except OSError as error:
        raise StorageError(f"cannot keep the epoch of this broker in {file}: {error}") from error
    return epoch
