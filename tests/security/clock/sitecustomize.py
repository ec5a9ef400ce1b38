"""Lets a test move the clock of a real process: Python imports this module at its start.

``TOCSIN_TEST_CLOCK`` names a file with eight bytes, the seconds that ``time.time`` is ahead.
"""

import mmap
import os
import struct
import time
from pathlib import Path

if "TOCSIN_TEST_CLOCK" in os.environ:
    with Path(os.environ["TOCSIN_TEST_CLOCK"]).open("rb") as file:
        ahead = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    real = time.time

    def moved() -> float:
        seconds: float = struct.unpack("d", ahead[:8])[0]
        return real() + seconds

    time.time = moved
