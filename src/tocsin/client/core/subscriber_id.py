"""The identity of a client on all brokers, where the application gives none."""

from __future__ import annotations

from random import Random
from string import ascii_letters, digits

_LETTERS = ascii_letters + digits + "-_"


def new_subscriber(random: Random) -> str:
    return "".join(random.choices(_LETTERS, k=22))
