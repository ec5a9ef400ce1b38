"""Hashes of passwords that are expensive to guess."""

from __future__ import annotations

import hashlib

#: scrypt's cost: about 50 ms and 16 MiB for each password that is tried.
COST = {"n": 2**14, "r": 8, "p": 1}


def hash_password(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, maxmem=64 * 1024 * 1024, **COST)
