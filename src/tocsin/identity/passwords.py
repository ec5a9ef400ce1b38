"""Hashes of passwords in threads of their own and few at a time: guesses delay only other guesses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher

from tocsin.errors import Busy
from tocsin.identity.password_hashes import HASHER, PasswordHashes

#: Hashes that are computed at the same time, and that may wait for it.
AT_ONCE, WAITING = 2, 64

T = TypeVar("T")


class Passwords:
    def __init__(self, hasher: PasswordHasher = HASHER) -> None:
        self._hashes = PasswordHashes(hasher)
        self._threads = ThreadPoolExecutor(AT_ONCE, "passwords")
        self._open = 0

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def hash(self, password: str) -> str:
        return await self._in_thread(lambda: self._hashes.hash(password))

    async def verify(self, known: str | None, password: str) -> tuple[bool, str | None]:
        """See ``PasswordHashes.verify``."""
        return await self._in_thread(lambda: self._hashes.verify(known, password))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._open >= AT_ONCE + WAITING:
            raise Busy("too many passwords wait to be verified", hint="try again in a second")
        self._open += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._open -= 1
