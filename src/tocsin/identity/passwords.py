"""Hashes of passwords, by argon2: in threads of their own and few at a time: guesses delay only other guesses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from tocsin.errors import Busy

#: Hashes that are computed at the same time, and that may wait for it. Each needs 19 MiB and about 30 ms (OWASP).
AT_ONCE, WAITING = 2, 64
HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)

T = TypeVar("T")


class Passwords:
    def __init__(self, hasher: PasswordHasher = HASHER) -> None:
        self._hasher = hasher
        self._threads = ThreadPoolExecutor(AT_ONCE, "passwords")
        self._open = 0
        self._of_no_user = hasher.hash("the password of a user that does not exist")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def hash(self, password: str) -> str:
        return await self._in_thread(lambda: self._hasher.hash(password))

    async def verify(self, known: str | None, password: str) -> tuple[bool, str | None]:
        """Whether it is the password, and its new hash where the parameters have changed since. A user that does not
        exist (None) takes the same time."""
        return await self._in_thread(lambda: self._verified(known, password))

    def _verified(self, known: str | None, password: str) -> tuple[bool, str | None]:
        try:
            self._hasher.verify(self._of_no_user if known is None else known, password)
        except (Argon2Error, InvalidHashError):
            return False, None
        if known is None:
            return False, None
        return True, self._hasher.hash(password) if self._hasher.check_needs_rehash(known) else None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._open >= AT_ONCE + WAITING:
            raise Busy("too many passwords wait to be verified", hint="try again in a second")
        self._open += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._open -= 1
