"""The secret that brokers' keys and tokens come from, in a file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from tocsin.errors import StorageError


def private_folder(folder: Path) -> None:
    """Created for its owner only; one that exists stays as it is."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create the folder {folder}: {error}", hint="choose another --home") from error


def secret_file(file: Path) -> bytes:
    """Created once, readable only by its owner."""
    try:
        return _secret(file)
    except OSError as error:
        raise StorageError(f"cannot keep a secret in {file}: {error}", hint="choose another --home") from error


def _secret(file: Path) -> bytes:
    if not file.exists():
        # Whole or not at all: half of it would be found damaged for ever.
        draft = file.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
            output.write(secrets.token_bytes(32))
            output.flush()
            os.fsync(output.fileno())
        draft.replace(file)
    found = file.read_bytes()
    if len(found) != 32:
        raise OSError("it is damaged; restore a backup, or delete it and restart all brokers")
    return found
