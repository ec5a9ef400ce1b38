"""Strategies that somebody else might have written; in a module of their own, so that another process finds them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from tocsin.balancing.move import Move
from tocsin.balancing.strategy import MinMax
from tocsin.balancing.trial import Trial


class Fails(MinMax):
    def suggest(self, view: Trial) -> Iterator[Move]:
        raise ZeroDivisionError("by no brokers")


class Dies(MinMax):
    def suggest(self, view: Trial) -> Iterator[Move]:
        os._exit(3)


class Broods(MinMax):
    def suggest(self, view: Trial) -> Iterator[Move]:
        threading.Event().wait()
        return iter(())


class Chats(MinMax):
    def suggest(self, view: Trial) -> Iterator[Move]:
        print("I am thinking")
        os.write(1, b"aloud")
        yield Move(0, 0, 1, why=str(os.getpid()))


class Closed(MinMax):
    """Cannot be sent anywhere."""

    def __init__(self) -> None:
        self.secret = lambda: None

    def suggest(self, view: Trial) -> Iterator[Move]:
        return iter(())
