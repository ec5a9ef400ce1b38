"""Hashes of passwords, by argon2. Each takes its time: see ``Passwords``."""

from __future__ import annotations

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

#: Each needs 19 MiB and about 30 ms (OWASP).
HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


class PasswordHashes:
    def __init__(self, hasher: PasswordHasher = HASHER) -> None:
        self._hasher = hasher
        self._of_no_user = hasher.hash("the password of a user that does not exist")

    def hash(self, password: str) -> str:
        return self._hasher.hash(password)

    def verify(self, known: str | None, password: str) -> tuple[bool, str | None]:
        """Whether it is the password, and its new hash where the parameters have changed since. A user that does not
        exist (None) takes the same time."""
        try:
            self._hasher.verify(self._of_no_user if known is None else known, password)
        except (Argon2Error, InvalidHashError):
            return False, None
        if known is None:
            return False, None
        return True, self._hasher.hash(password) if self._hasher.check_needs_rehash(known) else None
