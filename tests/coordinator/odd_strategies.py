"""Strategies that somebody else might have written; in a module of their own, so that another process finds them."""

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


class Broods(MinMax):
    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        threading.Event().wait()
        return iter(())


class Chats(MinMax):
    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        print("I am thinking")
        os.write(1, b"aloud")
        yield Migration(0, 0, 1, reason=str(os.getpid()))


class Closed(MinMax):
    """Cannot be sent anywhere."""

    def __init__(self) -> None:
        self.secret = lambda: None

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        return iter(())
