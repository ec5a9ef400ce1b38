"""Passwords: guesses cost the same for every name, and delay only other guesses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from tocsin.errors import Busy
from tocsin.identity.password_hashes import HASHER
from tocsin.identity.passwords import AT_ONCE, WAITING, Passwords


@pytest.fixture
def passwords() -> Iterator[Passwords]:
    found = Passwords()
    yield found
    found.close()


def test_only_the_right_password_is_verified(passwords: Passwords) -> None:
    async def check() -> None:
        hashed = await passwords.hash("correct horse")
        assert hashed.startswith("$argon2id$")
        assert await passwords.verify(hashed, "correct horse") == (True, None)
        assert await passwords.verify(hashed, "wrong horse") == (False, None)
        assert await passwords.verify("damaged", "correct horse") == (False, None)

    asyncio.run(check())


def test_a_hash_with_other_parameters_is_renewed(passwords: Passwords) -> None:
    async def check() -> None:
        old = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("correct horse")
        right, renewed = await passwords.verify(old, "correct horse")
        assert right and renewed is not None
        assert await passwords.verify(renewed, "correct horse") == (True, None)
        assert await passwords.verify(old, "wrong horse") == (False, None)

    asyncio.run(check())


class Counted(PasswordHasher):
    verified = 0

    def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # type: ignore[override]
        self.verified += 1
        assert str(hash).split("$")[3] == HASHER.hash("x").split("$")[3]  # the same cost
        return super().verify(hash, password)


def test_a_user_that_does_not_exist_takes_the_same_work() -> None:
    hasher = Counted(HASHER.time_cost, HASHER.memory_cost, HASHER.parallelism)
    passwords = Passwords(hasher)
    assert asyncio.run(passwords.verify(None, "the password of a user that does not exist")) == (False, None)
    assert hasher.verified == 1
    passwords.close()


def test_only_few_passwords_wait_at_a_time(passwords: Passwords) -> None:
    async def flood() -> list[BaseException | tuple[bool, str | None]]:
        hashed = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("x")
        tries = [passwords.verify(hashed, "wrong") for _ in range(AT_ONCE + WAITING + 5)]
        return await asyncio.gather(*tries, return_exceptions=True)

    assert sum(isinstance(each, Busy) for each in asyncio.run(flood())) == 5
