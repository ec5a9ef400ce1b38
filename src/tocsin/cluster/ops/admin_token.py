"""The operators' token, in a file of the home that only its owner can read."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from tocsin.errors import StorageError

FILE = "admin.token"


def admin_token(home: Path) -> str:
    """Made once."""
    file = home / FILE
    try:
        with (
            suppress(FileExistsError),
            os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output,
        ):
            output.write(secrets.token_urlsafe(32))
        found = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot keep the operators' token in {file}: {error}") from error
    if not found:
        raise StorageError(f"the operators' token in {file} is empty", hint="delete the file; a new one is made")
    return found
