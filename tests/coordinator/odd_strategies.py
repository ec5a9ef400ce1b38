"""Badly behaved strategies, in a module of their own so that another process can import them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.strategy import MinMax


class Fails(MinMax):
    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        raise ZeroDivisionError("by no brokers")


class Dies(MinMax):
    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        os._exit(3)


class Hangs(MinMax):
    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        threading.Event().wait()
        return iter(())


class Prints(MinMax):
    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        print("I am thinking")
        os.write(1, b"aloud")
        yield Migration(0, 0, 1, reason=str(os.getpid()))


class Unpicklable(MinMax):
    """Cannot be sent to another process."""

    def __init__(self) -> None:
        self.secret = lambda: None

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        return iter(())
